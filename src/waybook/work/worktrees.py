"""Git worktrees: every step gets a branch and a folder of its own."""

import asyncio
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from waybook.errors import InvalidInput
from waybook.plan.touches import Comparison
from waybook.work.records import is_pooled

#: Agents can write into their worktree, so nothing that a repository names is executed here.
_SAFE: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
_IDENTITY: Final = ("-c", "user.name=Waybook worker", "-c", "user.email=worker@waybook.invalid")
_GIT_SECONDS: Final = 300.0


class GitError(Exception):
    """A git command failed."""


class NotDone(Exception):
    """The agent's changes cannot be accepted. The message says why, to the agent."""


class Git:
    """Git in a folder, with options for every command."""

    def __init__(self, folder: Path | None, *options: str) -> None:
        self._cwd, self._options = folder, (*_SAFE, *options)

    async def git(self, *words: str) -> str:
        """Run git and return its output.

        Raises:
            GitError: the command failed.
        """
        status, text = await self.try_git(*words)
        if status:
            raise GitError(f"git {' '.join(words[:3])}: {text.strip()[-500:]}")
        return text

    async def try_git(self, *words: str) -> tuple[int, str]:
        """Run git, and return its status and its output with the error text."""
        process = await asyncio.create_subprocess_exec(
            *("git", *self._options, *words), cwd=self._cwd, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
        )
        try:
            async with asyncio.timeout(_GIT_SECONDS):
                out, err = await process.communicate()
        except (TimeoutError, asyncio.CancelledError):
            process.kill()
            await process.wait()
            raise
        text = out if not process.returncode else out + err
        return process.returncode or 0, text.decode(errors="replace")


class Repository(Git):
    """Repository of the person; its own worktree is never changed."""

    def __init__(self, common: Path) -> None:
        super().__init__(None, f"--git-dir={common}")
        #: The folder `.git`, which all worktrees share.
        self.common = common
        #: Worktrees that this process uses.
        self.trees: dict[Path, Tree] = {}
        self._adding = asyncio.Lock()
        self._identity: tuple[str, ...] | None = None

    @classmethod
    async def find(cls, folder: Path) -> "Repository | None":
        """Return the repository that contains a folder, or None outside of one."""
        status, text = await Git(folder).try_git("rev-parse", "--git-common-dir")
        if status:
            return None
        repository = cls((folder / text.strip()).resolve())
        if await repository.commit_of("HEAD") is None:
            raise InvalidInput(f"{folder} has no commit yet: commit first, or use --isolation none")
        return repository

    async def commit_of(self, name: str) -> str | None:
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        status, text = await self.try_git(*words)
        return None if status else text.strip()

    async def contains(self, tip: str, commit: str) -> bool:
        return (await self.try_git("merge-base", "--is-ancestor", commit, tip))[0] == 0

    async def identity(self) -> tuple[str, ...]:
        """Return the options that name an author, if the person has not configured one."""
        if self._identity is None:
            status, _ = await self.try_git("config", "user.email")
            self._identity = _IDENTITY if status else ()
        return self._identity

    async def open_tree(self, folder: Path, branch: str | None, start: str) -> "Tree":
        """Check out a commit in the worktree at this path.

        A pooled worktree of this process is used again, and its ignored files stay. Any other
        worktree there is replaced, because another agent may still write into it.
        """
        at = ("--detach",) if branch is None else ("-B", branch)
        if is_pooled(str(folder)) and (tree := self.trees.get(folder)) is not None:
            await tree.git("reset", "--quiet", "--hard")
            await tree.git("clean", "--quiet", "--force", "-d")
            await tree.git("checkout", "--quiet", "--force", *at, start)
            return tree
        async with self._adding:
            await self.remove_tree(folder)
            await self.git("worktree", "add", "--force", "--quiet", *at, str(folder), start)
        # Agents can change the file .git of their worktree, so it is read only once, before they
        # start.
        pointer = (folder / ".git").read_text("utf-8")
        tree = Tree(self, folder, Path(pointer.removeprefix("gitdir:").strip()))
        return self.trees.setdefault(folder, tree)

    async def remove_tree(self, folder: Path) -> None:
        self.trees.pop(folder, None)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        await self.git("worktree", "prune")

    async def delete_branch(self, branch: str) -> None:
        await self.git("update-ref", "-d", f"refs/heads/{branch}")


class Tree(Git):
    """Worktree of one step, or of the merges of a plan."""

    def __init__(self, repository: Repository, folder: Path, git_dir: Path) -> None:
        super().__init__(folder, f"--git-dir={git_dir}", f"--work-tree={folder}")
        self.repository, self.folder, self.git_dir = repository, folder, git_dir

    async def commit(self, message: str) -> None:
        """Commit what the agent changed, and what is left of a merge.

        Raises:
            NotDone: files still contain conflict markers, or git refuses the commit.
        """
        await self.git("add", "--all")
        _, faults = await self.try_git("diff", "--cached", "--check", "HEAD")
        marked = [line for line in faults.splitlines() if "leftover conflict marker" in line]
        is_merge = (self.git_dir / "MERGE_HEAD").exists()
        if marked and is_merge:
            raise NotDone(f"conflicts are left: {'; '.join(marked[:10])}")
        is_clean = not (await self.try_git("diff", "--cached", "--quiet", "HEAD"))[0]
        if is_clean and not is_merge:
            return
        identity = await self.repository.identity()
        status, text = await self.try_git(*identity, "commit", "--quiet", "-m", message)
        if status:
            raise NotDone(f"the changes cannot be committed: {text.strip()[-500:]}")

    async def finish(self, branch: str, start: str, message: str) -> list[str]:
        """Commit the agent's work on its branch, and return the names of the changed files.

        Raises:
            NotDone: the work does not continue the commit at which the step started.
        """
        await self.commit(message)
        head = (await self.git("rev-parse", "HEAD")).strip()
        if not await self.repository.contains(head, start):
            raise NotDone(f"the branch no longer contains {start[:12]}, where the step started")
        await self.repository.git("update-ref", f"refs/heads/{branch}", head)
        names = await self.git("diff", "--name-only", "--no-renames", "-z", start, head)
        return [name for name in names.split("\0") if name]


def uncovered(names: Iterable[str], touches: Sequence[str]) -> list[str]:
    """Return the files that no touch covers. A touch with a colon names a resource, not files.

    >>> uncovered(["src/a.py", "src/b/c.py", "README.md"], ["src/*.py", "db:main"])
    ['src/b/c.py', 'README.md']
    >>> uncovered(["src/b/c.py", "docs/x/y"], ["src/**", "docs"]), uncovered(["a"], ["db:main"])
    ([], [])
    >>> uncovered(["*", "s?c/a"], ["src/**"])
    ['*', 's?c/a']
    """
    globs = [(*touch.split("/"), "**") for touch in touches if ":" not in touch]
    # In the name of a file, a wildcard stands for itself.
    parts = {name: re.sub(r"[*?]", "\0", name).split("/") for name in names}
    covers = Comparison().overlaps
    return [n for n in parts if globs and not any(covers(glob, parts[n]) for glob in globs)]
