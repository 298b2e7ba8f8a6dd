"""Merges finished branches into the target branch of a plan, one at a time, in plan order."""

import asyncio
import fcntl
import heapq
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from waybook.work.adapters import Adapter
from waybook.work.agent_process import run_agent
from waybook.work.tasks import Limits, OutcomeKind, Task
from waybook.work.worktrees import GitError, NotDone, Repository, Tree

_LOCK_POLL_SECONDS: Final = 0.2
_MAX_SIDE_LENGTH: Final = 6_000
_MAX_CHECK_LENGTH: Final = 4_000
_MAX_FILES_NAMED: Final = 20
_MAX_CHECK_SECONDS: Final = 3600.0


class CheckFailed(NotDone):
    """The check failed on the merged state; the target branch is unchanged."""


class Conflict(NamedTuple):
    """Files that both sides changed, and what each side changed in them."""

    files: list[str]
    target: str
    ours: str
    theirs: str


@dataclass(order=True, slots=True)
class _Waiting:
    order: int
    branch: str
    message: str = field(compare=False)
    done: "asyncio.Future[Conflict | None]" = field(compare=False)


class Merger:
    """The target branch of a plan."""

    def __init__(
        self, repository: Repository, target: str, folder: Path, check: Adapter | None
    ) -> None:
        """Prepare merges in a worktree at `folder`; `check` runs on each merged state."""
        self.repository, self.target = repository, target
        self._folder, self._check = folder, check
        self._tree: Tree | None = None
        self._turn = asyncio.Lock()
        self._waiting: list[_Waiting] = []

    async def tip(self) -> str:
        """Return the last commit of the target branch, which is created if it does not exist."""
        if tip := await self.repository.commit_of(f"refs/heads/{self.target}"):
            return tip
        head = (await self.repository.git("rev-parse", "HEAD")).strip()
        try:
            # The empty old value means that the branch must not exist.
            await self.repository.git("update-ref", f"refs/heads/{self.target}", head, "")
        except GitError:
            if await self.repository.commit_of(f"refs/heads/{self.target}") is None:
                raise
            return await self.tip()
        return head

    async def merge(self, order: int, branch: str, message: str) -> Conflict | None:
        """Merge a branch after the branches of earlier steps that wait at the same time.

        A repeated call finds out whether the branch is merged already. Return the conflict, if
        there is one.

        Raises:
            CheckFailed: the check failed on the merged state.
        """
        done = asyncio.get_running_loop().create_future()
        mine = _Waiting(order, branch, message, done)
        heapq.heappush(self._waiting, mine)
        try:
            async with self._turn:
                while not done.done():
                    first = heapq.heappop(self._waiting)
                    if not first.done.cancelled():
                        await self._settle(first)
            conflict: Conflict | None = await done
            return conflict
        finally:
            done.cancel()

    async def _settle(self, first: _Waiting) -> None:
        try:
            async with self._lock():
                outcome = await self._merge(first.branch, first.message)
        except asyncio.CancelledError:
            # Only the step that waits here was canceled, perhaps not the one that is merged.
            heapq.heappush(self._waiting, first)
            raise
        except (NotDone, GitError, OSError) as error:
            if not first.done.done():
                first.done.set_exception(error)
        else:
            if not first.done.done():
                first.done.set_result(outcome)

    async def close(self) -> None:
        if self._tree is not None:
            await self.repository.remove_tree(self._folder)

    async def _merge(self, branch: str, message: str) -> Conflict | None:
        while True:
            tip = await self.tip()
            commit = await self.repository.commit_of(f"refs/heads/{branch}")
            if commit is None or await self.repository.contains(tip, commit):
                return None
            tree = await self._at(tip)
            identity = await self.repository.identity()
            status, text = await tree.try_git(*identity, "merge", "--no-ff", "-m", message, commit)
            if status:
                return await self._conflict(tree, tip, commit, text)
            merged = (await tree.git("rev-parse", "HEAD")).strip()
            await self._run_check()
            if await self._advance(merged, tip):
                return None

    async def _advance(self, merged: str, tip: str) -> bool:
        """Move the target branch, in one step, unless another process has moved it meanwhile."""
        try:
            await self.repository.git("update-ref", f"refs/heads/{self.target}", merged, tip)
        except GitError:
            if await self.tip() == tip:
                raise
            return False
        return True

    async def _at(self, tip: str) -> Tree:
        if self._tree is None:
            self._tree = await self.repository.add_tree(self._folder, None, tip)
        await self._tree.git("reset", "--quiet", "--hard", tip)
        # Ignored files stay, because builds are faster with them.
        await self._tree.git("clean", "--quiet", "--force", "-d")
        return self._tree

    async def _conflict(self, tree: Tree, tip: str, commit: str, text: str) -> Conflict:
        names = await tree.git("diff", "--name-only", "--diff-filter=U", "-z")
        files = [name for name in names.split("\0") if name]
        await tree.try_git("merge", "--abort")
        if not files:
            raise GitError(f"git merge: {text.strip()[-500:]}")
        sides = [
            (await tree.git("diff", f"{base}...{tip_of_side}", "--", *files))[:_MAX_SIDE_LENGTH]
            for base, tip_of_side in ((commit, tip), (tip, commit))
        ]
        return Conflict(files[:_MAX_FILES_NAMED], self.target, *sides)

    async def _run_check(self) -> None:
        if self._check is None:
            return
        task = Task(prompt="", folder=self._folder)
        limits = Limits(seconds=_MAX_CHECK_SECONDS)
        outcome = await run_agent(self._check, task, limits, lambda _: None)
        if outcome.kind is not OutcomeKind.DONE:
            output = outcome.transcript.decode(errors="replace")[-_MAX_CHECK_LENGTH:]
            raise CheckFailed(f"the check failed on the merged state: {outcome.message}\n{output}")

    @asynccontextmanager
    async def _lock(self) -> AsyncIterator[None]:
        """Exclude the merges of other processes; a killed process gives the lock back."""
        path = self.repository.common / "waybook-merge.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    await asyncio.sleep(_LOCK_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)
