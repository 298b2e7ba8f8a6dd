"""Merges finished branches into the target branch of a plan, one at a time, in plan order."""

import asyncio
import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from waybook.work.adapters import Adapter
from waybook.work.agent_process import run_agent
from waybook.work.tasks import Limits, OutcomeKind, Task
from waybook.work.worktrees import GitError, NotDone, Repository, Tree

_POLL_SECONDS: Final = 0.1
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


class Merger:
    """The target branch of a plan."""

    def __init__(
        self, repository: Repository, target: str, folder: Path, check: Adapter | None
    ) -> None:
        """Prepare merges in a worktree at `folder`; `check` runs on each merged state."""
        self.repository, self.target = repository, target
        self._folder, self._check = folder, check
        #: Orders of the steps whose branches wait in this process.
        self._waiting: list[int] = []

    async def tip(self) -> str:
        """Return the last commit of the target branch, which is created if it does not exist."""
        branch = f"refs/heads/{self.target}"
        if tip := await self.repository.commit_of(branch):
            return tip
        # The empty old value means that the branch must not exist: another process may create it.
        with suppress(GitError):
            await self.repository.git("update-ref", branch, "HEAD", "")
        return (await self.repository.git("rev-parse", branch)).strip()

    async def merge(self, order: int, branch: str, message: str) -> Conflict | None:
        """Merge a branch after the branches of earlier steps that wait at the same time.

        A repeated call finds out whether the branch is merged already. Return the conflict, if
        there is one.

        Raises:
            CheckFailed: the check failed on the merged state.
        """
        async with self._turn(order):
            while True:
                tip = await self.tip()
                commit = await self.repository.commit_of(f"refs/heads/{branch}")
                if commit is None or await self.repository.contains(tip, commit):
                    return None
                tree = await self.repository.open_tree(self._folder, None, tip)
                identity = await self.repository.identity()
                words = (*identity, "merge", "--no-ff", "-m", message, commit)
                status, text = await tree.try_git(*words)
                if status:
                    return await self._conflict(tree, tip, commit, text)
                merged = (await tree.git("rev-parse", "HEAD")).strip()
                await self._run_check()
                try:
                    await self.repository.git(
                        "update-ref", f"refs/heads/{self.target}", merged, tip
                    )
                except GitError:
                    if await self.tip() == tip:
                        raise
                    continue  # A person has moved the target branch meanwhile.
                return None

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
            output = outcome.transcript[-_MAX_CHECK_LENGTH:]
            raise CheckFailed(f"the check failed on the merged state: {outcome.message}\n{output}")

    @asynccontextmanager
    async def _turn(self, order: int) -> AsyncIterator[None]:
        """Wait until nothing is merged in the repository, and no earlier step waits here.

        The lock also excludes other processes; a killed process gives it back.
        """
        self._waiting.append(order)
        try:
            with (self.repository.common / "waybook-merge.lock").open("a") as lock:
                # No event tells that another process has released the lock.
                while min(self._waiting) < order or not _is_locked(lock):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
                yield
        finally:
            self._waiting.remove(order)


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
