"""Files of the workers of this machine: locks of sessions, records of claimed work, and logs."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from waybook.json_values import Json

_MAX_LOG_BYTES: Final = 1024 * 1024
_MAX_LOGS: Final = 200
_MAX_SESSIONS: Final = 1000
_CUT: Final = "… the log is cut here\n"


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

    @property
    def plan_id(self) -> str:
        return str(self.reply["planId"])

    @property
    def step_id(self) -> str:
        return str(self.reply["stepId"])

    @property
    def attempt(self) -> int:
        return int(self.reply["attempt"])

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

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)


class StateFolder:
    """Folder with the files of all workers of this machine that use one server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._locks: dict[str, int] = {}
        for name in ("sessions", "steps", "logs", "trees"):
            (root / name).mkdir(mode=0o700, parents=True, exist_ok=True)

    def take_session(self, host: str) -> str:
        """Return the first free session name; it stays taken until this process ends.

        A restarted worker gets the same name, so that it gets back the step that it held.
        """
        for number in range(1, _MAX_SESSIONS):
            name = f"worker-{host}-{number}"
            if name not in self._locks and self.take(name):
                return name
        raise RuntimeError(f"{_MAX_SESSIONS} workers run already")

    def take(self, session: str, taken: set[str] | None = None) -> bool:
        """Lock a session name, unless another process uses it; add a new lock to `taken`."""
        if session in self._locks:
            return True
        path = self.root / "sessions" / f"{session}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks[session] = descriptor
        if taken is not None:
            taken.add(session)
        return True

    def release(self, session: str) -> None:
        os.close(self._locks.pop(session))

    def record_path(self, plan_id: str, step_id: str) -> Path:
        return self.root / "steps" / f"{plan_id}-{step_id}.json"

    def record_of(self, plan_id: str, step_id: str) -> Record | None:
        return _read(self.record_path(plan_id, step_id))

    def records(self) -> Iterator[Record]:
        for path in sorted((self.root / "steps").glob("*.json")):
            if record := _read(path):
                yield record

    def step_tree(self, plan_id: str, step_id: str) -> Path:
        return self.root / "trees" / f"{plan_id}-{step_id}"

    def pooled_tree(self, session: str, name: str) -> Path:
        """Return the path of a worktree that a session uses for several steps or merges."""
        return self.root / "trees" / f"pool.{session}.{name}"

    def pooled_trees(self) -> Iterator[tuple[Path, str]]:
        for path in sorted((self.root / "trees").glob("pool.*")):
            yield path, path.name.split(".")[1]

    def open_log(self, name: str) -> "Log":
        logs = sorted((self.root / "logs").iterdir(), key=lambda path: path.stat().st_mtime)
        for old in logs[: -_MAX_LOGS + 1]:
            old.unlink(missing_ok=True)
        return Log(self.root / "logs" / f"{name}.log")


def _read(path: Path) -> Record | None:
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        stored = json.loads(path.read_text("utf-8"))
        return Record(**{**stored, "path": path, "stage": Stage(stored["stage"])})
    return None


class Log:
    """Output of the agent on one attempt, in a file of limited size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._left = _MAX_LOG_BYTES
        self._file = path.open("w", encoding="utf-8")

    def write(self, line: str) -> None:
        if self._left > 0:
            self._left -= len(line.encode()) + 1
            self._file.write(f"{line}\n" if self._left > 0 else _CUT)
            self._file.flush()

    def close(self) -> None:
        self._file.close()
