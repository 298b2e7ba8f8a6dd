"""Conversation state files: atomic, private, separate, and unable to make a call fail."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import mcp_types as wire
import pytest

from plugins.hook_process import NO_PROCESS
from waybook.app.request.caller import Answer
from waybook.transport.mcp.conversation_files import (
    MAX_FILES,
    OWN_KEY,
    ClientProcess,
    ConversationFiles,
)
from waybook.transport.mcp.tools import to_tool_result

READY = {"status": "step_ready", "planId": "p", "stepId": "s", "attempt": 1}


def make_files(folder: Path, conversation: str | None = "one") -> ConversationFiles:
    return ConversationFiles(folder / "states", ClientProcess(7, "/work", conversation))


def record(
    files: ConversationFiles, body: dict[str, object], *, thread: str | None = None, **more: object
) -> None:
    params = wire.CallToolRequestParams.model_validate(
        {
            "name": "get_next_step",
            "arguments": {"planId": "p"},
            **({"_meta": {"threadId": thread}} if thread else {}),
            **more,
        }
    )
    files.record(params, to_tool_result(Answer(body, is_error="error" in body)))


def read(folder: Path, key: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads((folder / "states" / f"{key}.json").read_text("utf-8"))


def test_conversation_file_contains_held_steps_client_and_directory(tmp_path: Path) -> None:
    record(make_files(tmp_path), READY)
    state = read(tmp_path, "one")
    assert state["steps"] == [{"planId": "p", "stepId": "s", "attempt": 1}]
    assert (state["client"], state["directory"], state["process"]) == (7, "/work", os.getpid())


def test_conversation_file_is_readable_by_the_owner_only(tmp_path: Path) -> None:
    record(make_files(tmp_path), READY)
    folder = tmp_path / "states"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]


def test_conversation_file_is_deleted_when_the_plan_fails(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    record(files, READY)
    record(files, {"status": "plan_failed", "planId": "p"})
    assert [*(tmp_path / "states").iterdir()] == []


def test_resumed_conversation_extends_the_stored_state(tmp_path: Path) -> None:
    record(make_files(tmp_path), READY)
    record(make_files(tmp_path), {**READY, "stepId": "t"})
    assert [step["stepId"] for step in read(tmp_path, "one")["steps"]] == ["s", "t"]


def test_conversation_file_is_named_after_the_thread_id(tmp_path: Path) -> None:
    files = make_files(tmp_path, conversation=None)
    record(files, READY, thread="thread-1")
    record(files, {**READY, "planId": "q"}, thread="../../outside")
    record(files, {**READY, "planId": "q"})
    names = {path.stem for path in (tmp_path / "states").iterdir()}
    assert names == {"thread-1", OWN_KEY}


def test_review_request_removes_the_step_from_the_conversation_file(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    record(files, READY)
    reply = {"planId": "p", "stepId": "s", "planStatus": "awaiting_review"}
    form = wire.InputRequiredResult(input_requests={}, request_state=json.dumps(reply))
    params = wire.CallToolRequestParams(name="request_user_review", arguments={"stepId": "s"})
    files.record(params, form)
    assert read(tmp_path, "one")["plan"]["status"] == "awaiting_review"
    assert read(tmp_path, "one")["steps"] == []


@pytest.mark.parametrize(
    ("fields", "is_kept"),
    [
        ({}, False),
        ({"process": os.getpid()}, True),
        ({"directory": "/elsewhere"}, True),
        ({"plan": {"planId": "q"}}, True),
    ],
)
def test_file_of_ended_conversation_is_deleted_when_plan_continues(
    tmp_path: Path, fields: dict[str, object], *, is_kept: bool
) -> None:
    record(make_files(tmp_path, "ended"), READY)
    path = tmp_path / "states" / "ended.json"
    path.write_text(json.dumps({**read(tmp_path, "ended"), "process": NO_PROCESS, **fields}))
    record(make_files(tmp_path, "new"), READY)
    assert path.exists() is is_kept


def test_number_of_conversation_files_is_limited(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    for number in range(MAX_FILES + 5):
        record(files, {**READY, "planId": f"p{number}"}, thread=f"t{number}")
    assert len([*(tmp_path / "states").iterdir()]) <= MAX_FILES + 1


def test_bad_files_are_deleted_before_the_states_of_other_conversations(tmp_path: Path) -> None:
    record(make_files(tmp_path, "other"), READY)
    states = tmp_path / "states"
    for number in range(MAX_FILES + 1):
        (states / f"bad-{number}.json").touch()
    os.mkfifo(states / "pipe.json")
    (states / "link.json").symlink_to(states / "missing")
    huge = {"directory": "/work", "plan": {"planId": "p"}, "format": 1, "process": 2**70}
    (states / "huge.json").write_text(json.dumps(huge), "utf-8")
    record(make_files(tmp_path), READY)
    names = {path.stem for path in states.glob("*.json")}
    assert {"one", "other"} < names
    assert "huge" not in names
    assert len(names) <= MAX_FILES


def test_unwritable_folder_of_conversation_files_is_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "states").write_text("not a folder", "utf-8")
    record(make_files(tmp_path), READY)
    assert "cannot write the state of the conversation" in caplog.text


@pytest.mark.parametrize("steps", [5, [7], [{}]])
def test_conversation_file_with_invalid_steps_is_replaced(tmp_path: Path, steps: object) -> None:
    record(make_files(tmp_path), READY)
    path = tmp_path / "states" / "one.json"
    path.write_text(json.dumps({**read(tmp_path, "one"), "steps": steps}), "utf-8")
    files = make_files(tmp_path)
    for _ in range(2):
        record(files, READY)
    assert [step["stepId"] for step in read(tmp_path, "one")["steps"]] == ["s"]


def test_reply_of_unexpected_form_does_not_fail_the_call(tmp_path: Path) -> None:
    record(make_files(tmp_path), {**READY, "next": 5, "submitted": [1]})
    record(make_files(tmp_path), READY)
    assert [step["stepId"] for step in read(tmp_path, "one")["steps"]] == ["s"]


def test_conversation_id_is_read_from_the_environment() -> None:
    assert ClientProcess.of({"CLAUDE_CODE_SESSION_ID": "0199-ab"}).conversation == "0199-ab"
    assert ClientProcess.of({"CLAUDE_CODE_SESSION_ID": "../x"}).conversation is None
    assert ClientProcess.of({}).directory == str(Path.cwd())
