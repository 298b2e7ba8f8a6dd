"""Files of the workers of this machine: locks of sessions, records of claimed work, and logs."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Final, Self

from waybook.json_values import Json

_MAX_LOGS: Final = 200
_MAX_SESSIONS: Final = 1000
#: Start of the names of worktrees that a session uses for several steps or merges.
_POOL: Final = "pool."


class Stage(StrEnum):
    WORKING = "working"
    #: The agent asked for a review. Its branch is kept, and its conversation can be resumed.
    PARKED = "parked"
    #: The agent is done. The result may not be merged or submitted yet.
    FINISHED = "finished"


@dataclass(slots=True)
class Record:
    """Work on one attempt of a step, stored so that a restarted worker can finish it."""

    path: Path
    #: Reply with which the step was claimed.
    reply: Mapping[str, Any]
    session: str
    agent: str
    stage: Stage = Stage.WORKING
    repository: str | None = None
    branch: str | None = None
    target: str | None = None
    #: Worktree of the step, if it has one.
    folder: str | None = None
    conversation: str | None = None
    result: Json = None
    usage: dict[str, Any] = field(default_factory=dict)
    #: Arguments that settle the reservation if the worker is killed. The usage of its agent is
    #: unknown then, so all that was reserved counts.
    reservation: dict[str, Any] = field(default_factory=dict)

    @property
    def plan_id(self) -> str:
        return str(self.reply["planId"])

    @property
    def step_id(self) -> str:
        return str(self.reply["stepId"])

    @property
    def attempt(self) -> int:
        return int(self.reply["attempt"])

    @property
    def order(self) -> int:
        return int(self.reply["stepOrder"])

    def save(self, **changes: object) -> Self:
        """Change these fields and store the record, as a whole or not at all."""
        for name, value in changes.items():
            setattr(self, name, value)
        draft = self.path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(self) | {"path": None}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        return self


class StateFolder:
    """Folder with the files of all workers of this machine that use one server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._locks: dict[str, IO[str]] = {}
        for name in ("sessions", "steps", "logs", "trees"):
            (root / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def take_session(self, host: str) -> str:
        """Return the first free session name; it stays taken until this process ends.

        A restarted worker gets the same name, so that it gets back the step that it held.
        """
        names = (f"worker-{host}-{number}" for number in range(1, _MAX_SESSIONS))
        return next(name for name in names if name not in self._locks and self.take(name))

    def take(self, session: str) -> bool:
        """Return whether no other process uses the session name, and keep it from others."""
        if session not in self._locks:
            lock = (self.root / "sessions" / f"{session}.lock").open("a")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                return False
            self._locks[session] = lock
        return True

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()

    def record_path(self, plan_id: str, step_id: str) -> Path:
        return self.root / "steps" / f"{plan_id}-{step_id}.json"

    def records(self) -> Iterator[Record]:
        for path in sorted((self.root / "steps").glob("*.json")):
            if record := read_record(path):
                yield record

    def step_tree(self, plan_id: str, step_id: str) -> Path:
        return self.root / "trees" / f"{plan_id}-{step_id}"

    def pooled_tree(self, session: str, name: str) -> Path:
        return self.root / "trees" / f"{_POOL}{session}.{name}"

    def abandoned_trees(self) -> list[Path]:
        """Return the pooled worktrees of dead processes."""
        trees = (self.root / "trees").glob(f"{_POOL}*")
        return [path for path in trees if self.take(path.name.split(".")[1])]

    def open_log(self, name: str) -> IO[str]:
        """Open the log of an attempt, and delete the oldest logs."""
        logs = sorted((self.root / "logs").iterdir(), key=lambda path: path.stat().st_mtime)
        for old in logs[: -_MAX_LOGS + 1]:
            old.unlink(missing_ok=True)
        return (self.root / "logs" / f"{name}.log").open("w", encoding="utf-8", buffering=1)


def is_pooled(folder: str) -> bool:
    return Path(folder).name.startswith(_POOL)


def read_record(path: Path) -> Record | None:
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        stored = json.loads(path.read_text("utf-8"))
        return Record(**{**stored, "path": path, "stage": Stage(stored["stage"])})
    return None
