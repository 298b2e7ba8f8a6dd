"""State of a conversation, which is derived from replies of tools and kept in a private file."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import mcp_types as wire
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.hook_process import NO_PROCESS
from waybook.app.request.caller import Answer
from waybook.transport.mcp.conversation_files import (
    MAX_FILE_BYTES,
    MAX_FILES,
    MAX_HELD_STEPS,
    NOT_HELD,
    OWN_KEY,
    ConversationFiles,
    State,
    observe,
    observe_error,
)
from waybook.transport.mcp.tools import to_tool_result

READY = {"status": "step_ready", "planId": "p", "stepId": "s", "attempt": 1}


def make_files(folder: Path, conversation: str | None = "one") -> ConversationFiles:
    return ConversationFiles(folder / "states", conversation, 7, "/work")


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


def test_thread_id_from_the_client_is_the_name_of_conversation_file(tmp_path: Path) -> None:
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
def test_new_conversation_on_a_plan_deletes_file_of_ended_conversation(
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


def test_invalid_conversation_files_are_deleted_before_valid_files(tmp_path: Path) -> None:
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


def test_failure_to_write_a_conversation_file_is_only_logged(
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


def test_tool_call_with_reply_of_unexpected_form_succeeds(tmp_path: Path) -> None:
    record(make_files(tmp_path), {**READY, "next": 5, "submitted": [1]})
    record(make_files(tmp_path), READY)
    assert [step["stepId"] for step in read(tmp_path, "one")["steps"]] == ["s"]


def test_conversation_id_is_read_from_the_environment() -> None:
    assert (
        ConversationFiles.of_process(
            Path("states"), {"CLAUDE_CODE_SESSION_ID": "0199-ab"}
        ).conversation
        == "0199-ab"
    )
    assert (
        ConversationFiles.of_process(
            Path("states"), {"CLAUDE_CODE_SESSION_ID": "../x"}
        ).conversation
        is None
    )
    assert ConversationFiles.of_process(Path("states"), {}).directory == str(Path.cwd())


# Tests of the state that a conversation file contains.


Reply = dict[str, Any]


def ready(plan: str, step: str, attempt: int = 1) -> Reply:
    return {
        "status": "step_ready",
        "planId": plan,
        "stepId": step,
        "stepOrder": 1,
        "title": f"Title of {step}",
        "attempt": attempt,
        "next": {"tool": "submit_step_result"},
    }


def submitted(plan: str, step: str, status: str = "executing") -> Reply:
    return {
        "planId": plan,
        "stepId": step,
        "stepStatus": "completed",
        "planStatus": status,
        "progress": {"percent": 50, "done": 1, "total": 2},
        "next": {"tool": "get_next_step"},
    }


def make_plan(**fields: object) -> State:
    return {"planId": "p", **fields}


def step_ids(state: State) -> list[str]:
    return [step["stepId"] for step in state.get("steps", [])]


def claim(state: State, plan: str, step: str, attempt: int = 1) -> State:
    arguments = {"planId": plan, "sessionId": "main"}
    return observe(state, "get_next_step", arguments, ready(plan, step, attempt))


def test_conversation_state_has_limited_size_after_many_claims() -> None:
    state: State = {}
    for number in range(2 * MAX_HELD_STEPS):
        reply = {**ready("p", f"s{number}"), "title": "é" * 10_000, "name": "é" * 10_000}
        state = observe(state, "get_next_step", {"planId": "p"}, reply)
    assert len(state["steps"]) == MAX_HELD_STEPS
    assert len(orjson.dumps(state)) < MAX_FILE_BYTES


STEPS = st.sampled_from(["s1", "s2", "s3"])
ACTIONS = st.lists(st.tuples(st.sampled_from(["claim", "submit", "review", "fail"]), STEPS))


@given(ACTIONS)
def test_conversation_state_contains_steps_until_submit_review_or_error(
    actions: list[tuple[str, str]],
) -> None:
    state: State = {}
    held = list[str]()
    for action, step in actions:
        rest = [other for other in held if other != step]
        match action:
            case "claim":
                state, held = claim(state, "p", step), [*rest, step]
            case "submit":
                reply = submitted("p", step)
                state, held = observe(state, "submit_step_result", {"stepId": step}, reply), rest
            case "review":
                reply = submitted("p", step, "awaiting_review")
                state, held = observe(state, "request_user_review", {"stepId": step}, reply), rest
            case _:
                state, held = observe_error(state, {"stepId": step}, "STALE_ATTEMPT"), rest
        assert step_ids(state) == held


def test_conversation_state_counts_completed_steps_of_a_plan() -> None:
    state: State = {}
    for step in ("a", "b"):
        state = observe(claim(state, "p", step), "submit_step_result", {}, submitted("p", step))
    review = {**submitted("p", "c", "awaiting_review"), "stepStatus": "awaiting_input"}
    state = observe(claim(state, "p", "c"), "request_user_review", {}, review)
    assert state["plan"] == make_plan(status="awaiting_review", done=1, total=2, finished=2)
    read = {"planId": "q", "status": "executing", "next": {"tool": "get_next_step"}}
    other = observe(state, "get_research_context", {}, read)
    assert other["plan"] == make_plan(planId="q", status="executing")


@pytest.mark.parametrize("status", ["plan_failed", "plan_complete"])
def test_conversation_state_is_empty_after_plan_ends_without_output(status: str) -> None:
    reply = {"status": status, "planId": "p", "next": {"tool": "list_active_plans"}}
    assert observe(claim({}, "p", "s"), "get_next_step", {"planId": "p"}, reply) == {}


def test_completed_plan_stays_in_conversation_state_until_output_is_stored() -> None:
    reply = {"status": "plan_complete", "planId": "p", "next": {"tool": "store_research_output"}}
    state = observe(claim({}, "p", "s"), "get_next_step", {"planId": "p"}, reply)
    assert (state["steps"], state["next"]) == ([], "store_research_output")
    assert observe(state, "store_research_output", {}, {"planId": "p", "status": "stored"}) == {}


def test_conversation_state_keeps_steps_of_other_plans_after_failure() -> None:
    state = claim(claim({}, "other", "o"), "p", "s")
    after = observe(state, "submit_step_result", {}, submitted("p", "s", "failed"))
    assert step_ids(after) == ["o"]


def test_plan_status_reply_removes_inactive_steps_from_conversation_state() -> None:
    state = claim(claim({}, "p", "a"), "p", "b", attempt=2)
    active = [{"stepId": "b", "attempt": 2, "status": "in_progress"}]
    reply = {
        "planId": "p",
        "name": "Rivers",
        "status": "executing",
        "counts": {"done": 1, "total": 3},
        "activeSteps": active,
    }
    after = observe(state, "get_plan_status", {}, reply)
    assert step_ids(after) == ["b"]
    assert after["plan"] == make_plan(name="Rivers", status="executing", done=1, total=3)
    shortened = observe(state, "get_plan_status", {}, {**reply, "cut": {}})
    assert shortened["steps"] == state["steps"]


def test_status_of_another_plan_does_not_change_conversation_state() -> None:
    state = claim({}, "p", "s")
    reply = {"planId": "q", "status": "executing", "activeSteps": []}
    assert observe(state, "get_plan_status", {}, reply) == state


def test_modify_plan_reply_removes_pending_step_from_conversation_state() -> None:
    state = claim({}, "p", "s")
    steps = [{"stepId": "s", "attempt": 2, "status": "pending"}]
    reply = {"planId": "p", "planStatus": "executing", "steps": steps}
    assert observe(state, "modify_plan", {}, {**reply, "dryRun": True}) == state
    assert observe(state, "modify_plan", {}, reply)["steps"] == []


@pytest.mark.parametrize("code", sorted(NOT_HELD))
def test_refused_result_removes_the_step_from_the_conversation_state(code: str) -> None:
    assert observe_error(claim({}, "p", "s"), {"stepId": "s"}, code)["steps"] == []


@pytest.mark.parametrize("code", ["INVALID_INPUT", "BUSY", "UNAVAILABLE", None])
def test_error_that_can_be_retried_keeps_step_in_conversation_state(code: str | None) -> None:
    state = claim({}, "p", "s")
    assert observe_error(state, {"stepId": "s"}, code) == state


def test_unknown_plan_is_removed_from_the_conversation_state() -> None:
    state = claim({}, "p", "s")
    assert observe_error(state, {"planId": "p"}, "NOT_FOUND") == {}
    assert observe_error(state, {"planId": "q"}, "NOT_FOUND") == state
