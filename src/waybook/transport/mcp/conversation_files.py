"""Files with the state of each conversation, for hooks of coding agents.

The state has the open plan, the steps that the conversation holds, and the next call. A hook reads
the file after the agent's context was compacted, so it need not call the server.
"""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import mcp_types as wire
import orjson

from waybook.core.ids import normalize_id

log = logging.getLogger(__name__)

FOLDER: Final = "conversations"
_FORMAT: Final = 1
MAX_FILES: Final = 64
MAX_FILE_BYTES: Final = 64 * 1024
_MAX_NAME_LENGTH: Final = 64
MAX_HELD_STEPS: Final = 8
#: Maximum length of a name or title. A longer one is cut.
_MAX_TEXT_LENGTH: Final = 200
_CONVERSATION_VARIABLE: Final = "CLAUDE_CODE_SESSION_ID"
#: Codex sends the name of the conversation in this field.
_THREAD_FIELD: Final = "threadId"
#: Programs that may run between a client and its MCP server process.
_LAUNCHERS: Final = frozenset({"uv", "uvx", "pipx", "sh", "bash", "dash", "zsh", "env"})
_MAX_LAUNCHERS: Final = 4
OWN_KEY: Final = f"process-{os.getpid()}"

#: Errors that show that the agent no longer holds the step of the call, or that the plan of the
#: call is no longer open.
NOT_HELD: Final = frozenset({"STALE_ATTEMPT", "NOT_FOUND", "INVALID_TRANSITION", "PLAN_TERMINAL"})
#: Tools that end the work on a step.
_ENDING_TOOLS: Final = frozenset(
    {"submit_step_result", "request_user_review", "submit_user_decision"}
)
#: Tools that only read a plan.
_READING_TOOLS: Final = frozenset({"get_plan_status", "get_research_context"})
#: Tools whose reply lists the steps of a plan, and the field with the list.
_STEP_LISTS: Final = {"get_plan_status": "activeSteps", "modify_plan": "steps"}
#: The plan status that follows from a status of `get_next_step`.
_CLAIM_STATUSES: Final = {
    "step_ready": "executing",
    "plan_failed": "failed",
    "plan_complete": "completed",
}
#: Tools whose replies change the state.
_OBSERVED_TOOLS: Final = frozenset(
    {"create_research_plan", "get_next_step", "store_research_output", "modify_plan"}
    | {*_ENDING_TOOLS, *_READING_TOOLS}
)

#: The content of a state file. Empty if the conversation has no open plan and holds no step.
State: TypeAlias = dict[str, Any]


def observe(state: State, tool: str, arguments: Mapping[str, Any], reply: State) -> State:
    """Return the state after a successful call."""
    # With `takeNext`, the field `submitted` is about the submitted step, and all other fields are
    # about the next step.
    result = {**reply.get("submitted", {}), **reply}
    plan_id, plan = result.get("planId") or _id(arguments, "planId"), state.get("plan") or {}
    is_current = plan.get("planId") == plan_id
    if plan_id is None or reply.get("dryRun") or (tool == "get_plan_status" and not is_current):
        return state
    if tool == "store_research_output":
        return _closed(state, plan_id) if plan.get("status") == "completed" else state
    status = result.get("status")
    if tool != "get_next_step" and "submitted" not in reply:
        status = result.get("planStatus", status)
    status = _CLAIM_STATUSES.get(str(status), status)
    if tool in _READING_TOOLS and status is None:
        return state
    next_tool = (result.get("next") or {}).get("tool")
    # A completed plan stays in the state until its output is stored.
    is_over = status == "completed" and (tool in _READING_TOOLS or next_tool == "list_active_plans")
    if status == "failed" or is_over:
        return _closed(state, plan_id)
    counts = result.get("counts") or result.get("progress") or {}
    if tool == "create_research_plan":
        counts = {"done": 0, "total": len(reply.get("stepIds", ()))}
    seen = {"name": _cut(result.get("name")), "status": status}
    seen |= {"done": counts.get("done"), "total": counts.get("total")}
    known = {**(plan if is_current else {"planId": plan_id}), **_without_none(seen)}
    if tool in _ENDING_TOOLS and result.get("stepStatus") in {"completed", "skipped"}:
        known["finished"] = known.get("finished", 0) + 1
    return {
        "format": _FORMAT,
        "plan": known,
        "steps": _steps_after(state, tool, arguments, reply, known),
        "next": next_tool,
        "sessionId": arguments.get("sessionId") or state.get("sessionId"),
    }


def _steps_after(
    state: State, tool: str, arguments: Mapping[str, Any], reply: State, plan: State
) -> list[State]:
    """Return the steps that the conversation holds after a call about a plan."""
    plan_id, steps = plan["planId"], state.get("steps", [])
    if tool in _ENDING_TOOLS:
        ended = _id(arguments, "stepId") if "submitted" in reply else reply.get("stepId")
    else:
        ended = (reply.get("review") or {}).get("stepId")
    steps = [step for step in steps if step["stepId"] != ended]
    if tool in _STEP_LISTS and "cut" not in reply:
        listed = reply.get(_STEP_LISTS[tool], [])
        running = {s["stepId"]: s["attempt"] for s in listed if s["status"] == "in_progress"}
        steps = [
            step
            for step in steps
            if step["planId"] != plan_id or running.get(step["stepId"]) == step["attempt"]
        ]
    if plan.get("status") == "completed":
        return [step for step in steps if step["planId"] != plan_id]
    if reply.get("status") != "step_ready":
        return steps
    held = {"planId": plan_id, "stepId": reply["stepId"], "attempt": reply["attempt"]}
    held |= {"order": reply.get("stepOrder"), "title": _cut(reply.get("title"))}
    held["sessionId"] = arguments.get("sessionId")
    others = [step for step in steps if step["stepId"] != held["stepId"]]
    return [*others, _without_none(held)][-MAX_HELD_STEPS:]


def observe_error(state: State, arguments: Mapping[str, Any], code: str | None) -> State:
    """Return the state after a failed call. The error may show that a step is no longer held."""
    step_id, plan_id = _id(arguments, "stepId"), _id(arguments, "planId")
    if code not in NOT_HELD or not state:
        return state
    if step_id is not None:
        steps = [step for step in state["steps"] if step["stepId"] != step_id]
        return {**state, "steps": steps} if steps or state["plan"] else {}
    if code == "NOT_FOUND" and state["plan"] and state["plan"]["planId"] == plan_id:
        return _closed(state, plan_id)
    return state


def _closed(state: State, plan_id: str | None) -> State:
    steps = [step for step in state.get("steps", []) if step["planId"] != plan_id]
    if (state.get("plan") or {}).get("planId") == plan_id:
        state = {**state, "plan": None, "next": None}
    return {**state, "steps": steps} if steps or state.get("plan") else {}


def _id(arguments: Mapping[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    return normalize_id(value) if isinstance(value, str) else None


def _cut(text: str | None) -> str | None:
    return text and text[:_MAX_TEXT_LENGTH]


def _without_none(fields: State) -> State:
    return {name: value for name, value in fields.items() if value is not None}


def _read_state(path: Path) -> State:
    # Reading a named pipe would wait for its writer.
    if path.is_file():
        with suppress(OSError, ValueError), path.open("rb") as file:
            state: State = orjson.loads(file.read(MAX_FILE_BYTES))
            match state:
                case {"format": 1, "plan": {"planId": str()} | None}:
                    return state
    return {}


@dataclass(slots=True)
class ConversationFiles:
    """Files with the state of one client's conversations."""

    folder: Path
    #: Id of the conversation, if the client puts it into the environment.
    conversation: str | None
    client_pid: int
    directory: str
    _states: dict[str, State] = field(default_factory=dict)

    @classmethod
    def of_process(cls, folder: Path, environment: Mapping[str, str]) -> "ConversationFiles":
        """Return the files of the client that started this process."""
        name = environment.get(_CONVERSATION_VARIABLE, "")
        conversation = name if _is_file_name(name) else None
        return cls(folder, conversation, _client_pid(), str(Path.cwd()))

    def record(
        self,
        params: wire.CallToolRequestParams,
        result: wire.CallToolResult | wire.InputRequiredResult,
    ) -> None:
        """Update the state file after a tool call. A failed update is only logged."""
        thread = dict(params.meta or {}).get(_THREAD_FIELD)
        is_named = isinstance(thread, str) and _is_file_name(thread)
        key = str(thread) if is_named else self.conversation or OWN_KEY
        try:
            before = self._states.get(key)
            if before is None:
                # The file may exist, because a client that resumes a conversation starts a new
                # server process.
                before = {} if key == OWN_KEY else _read_state(self.folder / f"{key}.json")
            # If the update fails because the file contains invalid steps, the next call starts with
            # this empty state.
            self._states[key] = {}
            self._states[key] = after = _after(before, params, result)
            if len(self._states) > MAX_FILES:
                # The state is removed only from memory. It can be read from its file again.
                del self._states[next(iter(self._states))]
            if not after and before:
                _delete(self.folder / f"{key}.json")
            elif after != before:
                self._write(key, after)
            plan, plan_before = after.get("plan"), before.get("plan") or {}
            if plan and plan["planId"] != plan_before.get("planId"):
                self._delete_superseded(key, plan["planId"])
        except Exception as error:  # noqa: BLE001 - the call itself succeeded
            log.warning("cannot write the state of the conversation: %s", error)

    def _write(self, key: str, state: State) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        process = {"client": self.client_pid, "process": os.getpid()}
        temporary = self.folder / f".{key}.{os.getpid()}"
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(orjson.dumps({**state, "directory": self.directory, **process}))
        temporary.replace(self.folder / f"{key}.json")

    def _delete_superseded(self, key: str, plan_id: str) -> None:
        """Delete the files of ended conversations about this plan, and files beyond `MAX_FILES`."""
        newest_first = sorted(self.folder.glob("*.json"), key=_rank, reverse=True)
        for place, path in enumerate(newest_first):
            other = _read_state(path)
            is_superseded = (
                other.get("directory") == self.directory
                and (other.get("plan") or {}).get("planId") == plan_id
                and not _is_running(other.get("process"))
            )
            if path.stem != key and (place >= MAX_FILES or is_superseded):
                # The file may belong to another user of the system, or be a directory.
                with suppress(OSError):
                    _delete(path)


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_suffix(".holds").unlink(missing_ok=True)


def _after(
    before: State,
    params: wire.CallToolRequestParams,
    result: wire.CallToolResult | wire.InputRequiredResult,
) -> State:
    arguments = params.arguments or {}
    if isinstance(result, wire.InputRequiredResult):
        # The call was executed, but the client must still ask a person. Until then, the reply is
        # only in `request_state`.
        reply = orjson.loads(result.request_state or "{}")
    elif result.is_error:
        texts = [block.text for block in result.content if isinstance(block, wire.TextContent)]
        with suppress(orjson.JSONDecodeError):
            match orjson.loads(texts[0] if texts else "{}"):
                case {"error": {"code": str() as code}}:
                    return observe_error(before, arguments, code)
        return before
    else:
        reply = dict(result.structured_content or {})
    is_observed = params.name in _OBSERVED_TOOLS
    return observe(before, params.name, arguments, reply) if is_observed else before


def _is_file_name(text: str) -> bool:
    """Return whether a conversation's name is safe as a file name.

    >>> _is_file_name("0199-ab"), _is_file_name("../x"), _is_file_name("")
    (True, False, False)
    """
    plain = text.replace("-", "").replace("_", "")
    return len(text) <= _MAX_NAME_LENGTH and plain.isascii() and plain.isalnum()


def _rank(path: Path) -> tuple[bool, float]:
    """Return a sort key: valid files rank above invalid ones, and newer files above older ones."""
    try:
        return bool(_read_state(path)), path.stat().st_mtime
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
        pass
    return True


def _client_pid() -> int:
    """Return the client's process id. Launchers such as `uv` may run in between."""
    pid = os.getppid()
    for _ in range(_MAX_LAUNCHERS):
        try:
            text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except OSError:
            return pid
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name not in _LAUNCHERS:
            return pid
        pid = int(rest.split()[1])
    return pid
