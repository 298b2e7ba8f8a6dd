"""Files with the state of each conversation, for hooks of coding agents.

A hook reads the file, so it need not call the server.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import mcp_types as wire
import orjson

from waybook.transport.mcp.conversation_state import (
    ConversationState,
    observe,
    observe_error,
    state_from_json,
)

log = logging.getLogger(__name__)

FOLDER: Final = "conversations"
MAX_FILES: Final = 64
MAX_FILE_BYTES: Final = 64 * 1024
MAX_NAME_LENGTH: Final = 64
CONVERSATION_VARIABLES: Final = ("CLAUDE_CODE_SESSION_ID",)
#: Codex sends the name of the conversation in this field.
THREAD_FIELD: Final = "threadId"
#: Programs that may run between a client and its MCP server process.
LAUNCHERS: Final = frozenset({"uv", "uvx", "pipx", "sh", "bash", "dash", "zsh", "env"})
MAX_LAUNCHERS: Final = 4
OWN_KEY: Final = f"process-{os.getpid()}"


@dataclass(frozen=True, slots=True)
class ClientProcess:
    pid: int
    directory: str
    conversation: str | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "ClientProcess":
        named = (environment.get(name, "") for name in CONVERSATION_VARIABLES)
        return cls(
            pid=_client_pid(),
            directory=str(Path.cwd()),
            conversation=next((name for name in named if is_file_name(name)), None),
        )


@dataclass(slots=True)
class ConversationFiles:
    """Files with the state of one client's conversations."""

    folder: Path
    client: ClientProcess
    _states: dict[str, ConversationState] = field(default_factory=dict)

    def record(
        self,
        params: wire.CallToolRequestParams,
        result: wire.CallToolResult | wire.InputRequiredResult,
    ) -> None:
        """Update the state file after a tool call. If that fails, the error is only logged."""
        thread = dict(params.meta or {}).get(THREAD_FIELD)
        arguments = params.arguments or {}
        body, is_error = body_of(result)
        try:
            self._update(
                self._key(thread),
                lambda state: (
                    observe_error(state, arguments, _code(body))
                    if is_error
                    else observe(state, params.name, arguments, body)
                ),
            )
        except (OSError, TypeError) as error:
            # The call itself succeeded, so the error is only logged.
            log.warning("cannot write the state of the conversation: %s", error)

    def _key(self, thread: object) -> str:
        if isinstance(thread, str) and is_file_name(thread):
            return thread
        return self.client.conversation or OWN_KEY

    def _update(self, key: str, observed: Callable[[ConversationState], ConversationState]) -> None:
        before = self._states.get(key)
        if before is None:
            # The file may exist, because a client that resumes a conversation starts a new server
            # process.
            before = ConversationState() if key == OWN_KEY else read_state(self._path(key))[0]
        after = observed(before)
        self._states[key] = after
        if len(self._states) > MAX_FILES:
            # The state is removed only from memory. It can be read from its file again.
            del self._states[next(iter(self._states))]
        if after != before:
            self._write(key, after)
        if after.plan_id not in {None, before.plan_id}:
            self._delete_superseded(key, after.plan_id)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _write(self, key: str, state: ConversationState) -> None:
        path = self._path(key)
        if state.is_empty:
            path.unlink(missing_ok=True)
            path.with_suffix(".holds").unlink(missing_ok=True)
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = {
            **state.as_json(),
            "directory": self.client.directory,
            "client": self.client.pid,
            "process": os.getpid(),
        }
        temporary = self.folder / f".{key}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps(body))
        temporary.replace(path)

    def _delete_superseded(self, key: str, plan_id: str | None) -> None:
        newest_first = sorted(self.folder.glob("*.json"), key=_rank, reverse=True)
        for place, path in enumerate(newest_first):
            if path.stem != key and (place >= MAX_FILES or self._is_superseded(path, plan_id)):
                # The file may belong to another user, or be a directory.
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                    path.with_suffix(".holds").unlink(missing_ok=True)

    def _is_superseded(self, path: Path, plan_id: str | None) -> bool:
        other, body = read_state(path)
        is_near = body.get("directory") == self.client.directory
        return is_near and other.plan_id == plan_id and not _is_running(body.get("process"))


def body_of(
    result: wire.CallToolResult | wire.InputRequiredResult,
) -> tuple[dict[str, object], bool]:
    if isinstance(result, wire.InputRequiredResult):
        # The call was executed, but the client must still ask the user. The reply is in the request
        # state.
        return _parse(result.request_state), False
    if not result.is_error:
        return dict(result.structured_content or {}), False
    texts = [block.text for block in result.content if isinstance(block, wire.TextContent)]
    return _parse(texts[0] if texts else None), True


def _parse(text: str | None) -> dict[str, object]:
    try:
        body = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


def _code(body: Mapping[str, object]) -> str | None:
    match body:
        case {"error": {"code": str() as code}}:
            return code
    return None


def read_state(path: Path) -> tuple[ConversationState, dict[str, object]]:
    # Reading a named pipe would wait for its writer.
    if path.is_file():
        with suppress(OSError, ValueError), path.open("rb") as file:
            body = orjson.loads(file.read(MAX_FILE_BYTES))
            if isinstance(body, dict):
                return state_from_json(body), body
    return ConversationState(), {}


def is_file_name(text: str) -> bool:
    """Return whether a conversation's name is safe as a file name.

    >>> is_file_name("0199-ab"), is_file_name("../x"), is_file_name("")
    (True, False, False)
    """
    plain = text.replace("-", "").replace("_", "")
    return len(text) <= MAX_NAME_LENGTH and plain.isascii() and plain.isalnum()


def _rank(path: Path) -> tuple[bool, float]:
    """Return the rank of a file among those to keep: valid files first, then the newest."""
    try:
        return bool(read_state(path)[1]), path.stat().st_mtime
    except OSError:
        return False, 0.0


def _is_running(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    if sys.platform == "win32":
        # On Windows, signal 0 would end the process.
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _client_pid() -> int:
    """Return the client's process id. Launchers such as `uv` may run in between."""
    pid = os.getppid()
    for _ in range(MAX_LAUNCHERS):
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return pid
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name not in LAUNCHERS:
            return pid
        pid = int(rest.split()[1])
    return pid
