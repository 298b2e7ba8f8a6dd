"""Hook script of the plugins: its output for each event, and for invalid input.

A stop is the event that an agent ends its turn. The hook can block the stop, so that the agent
continues its plan.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patience import PATIENCE_SECONDS
from plugins.hook_process import HOOK, PLAN, STEP, HookFolder, make_state
from tokens import count_tokens
from waybook.plugins import waybook_hook

MAX_TOKENS = 400
MAX_CHARACTERS = 9_000
CALL = json.dumps({"stepId": STEP, "attempt": 2, "sessionId": "main"})


@pytest.fixture
def folder(tmp_path: Path) -> HookFolder:
    return HookFolder(tmp_path)


@pytest.mark.parametrize("name", ["SessionStart", "BeforeAgent"])
def test_hook_at_session_start_shows_plan_and_next_call(folder: HookFolder, name: str) -> None:
    folder.write("one")
    text = folder.injected(name)
    assert f'plan "Rivers" (planId {PLAN}, 3 of 13 steps done)' in text
    assert f'step 4 "Measure" (stepId {STEP}, attempt 2)' in text
    assert f"submit_step_result {CALL}" in text


def test_hook_shows_the_next_call_if_agent_holds_no_step(folder: HookFolder) -> None:
    folder.write("one", steps=[], next="get_next_step")
    next_call = f"get_next_step {json.dumps({'planId': PLAN, 'sessionId': 'main'})}"
    assert f"You hold no step. Next call: {next_call}." in folder.injected()


def test_hook_before_compaction_prints_plan_and_step_for_the_summary(folder: HookFolder) -> None:
    folder.write("one")
    text = folder.event("PreCompact", trigger="auto")
    assert text.startswith("Copy these facts")
    assert STEP in text
    assert PLAN in text


@pytest.mark.parametrize(("name", "decision"), [("Stop", "block"), ("AfterAgent", "deny")])
def test_hook_blocks_only_the_first_stop_during_an_attempt(
    folder: HookFolder, name: str, decision: str
) -> None:
    folder.write("one")
    held = json.loads(folder.event(name, stop_hook_active=False))
    assert held["decision"] == decision
    assert f"submit_step_result {CALL}" in held["reason"]
    assert folder.event(name, stop_hook_active=False) == ""
    folder.write("one", steps=[{"planId": PLAN, "stepId": STEP, "attempt": 3}])
    assert json.loads(folder.event(name, stop_hook_active=False))["decision"] == decision


def test_hook_lets_the_agent_stop_after_repeated_blocked_stops(folder: HookFolder) -> None:
    def hold(number: int, *, active: bool) -> bool:
        folder.write("one", steps=[{"planId": PLAN, "stepId": f"step-{number}", "attempt": 1}])
        return folder.event("Stop", stop_hook_active=active) != ""

    most = waybook_hook.MAX_CONSECUTIVE_HOLDS
    assert [hold(n, active=n > 0) for n in range(most + 2)] == [True] * most + [False, False]
    assert hold(most + 2, active=False)


def test_hook_blocks_any_number_of_stops_after_completed_steps(folder: HookFolder) -> None:
    for number in range(1, 2 * waybook_hook.MAX_CONSECUTIVE_HOLDS):
        folder.write("one", **between(number))
        assert folder.event("Stop", stop_hook_active=True) != ""
        step = {"planId": PLAN, "stepId": f"step-{number}", "attempt": 1}
        folder.write("one", **{**between(number), "steps": [step]})
        assert folder.event("Stop", stop_hook_active=True) != ""


def between(finished: int | None, status: str = "executing") -> dict[str, Any]:
    """Return the state of a conversation that holds no step and has completed `finished` steps."""
    plan = {"planId": PLAN, "name": "Rivers", "status": status, "done": 3, "total": 13}
    return {"plan": {**plan, "finished": finished}, "steps": [], "next": "get_next_step"}


@pytest.mark.parametrize(("name", "decision"), [("Stop", "block"), ("AfterAgent", "deny")])
def test_hook_blocks_only_the_first_stop_after_a_completed_step(
    folder: HookFolder, name: str, decision: str
) -> None:
    folder.write("one", **between(1))
    held = json.loads(folder.event(name))
    assert held["decision"] == decision
    assert "3 of 13 steps done" in held["reason"]
    next_call = f"get_next_step {json.dumps({'planId': PLAN, 'sessionId': 'main'})}"
    assert f"Do not ask whether to go on: call {next_call}." in held["reason"]
    assert folder.event(name, stop_hook_active=True) == folder.event(name) == ""
    folder.write("one", **between(2))
    assert json.loads(folder.event(name))["decision"] == decision


@pytest.mark.parametrize(
    "state",
    [
        between(None),
        between(1, "planning"),
        between(1, "awaiting_review"),
        between(1, "no_pending_steps"),
        between(1, "completed"),
    ],
)
def test_hook_lets_agent_stop_if_no_step_is_ready(
    folder: HookFolder, state: dict[str, Any]
) -> None:
    folder.write("one", **state)
    assert folder.event("Stop") == ""


def test_plugin_hook_prints_nothing_at_the_end_of_a_subagent(folder: HookFolder) -> None:
    folder.write("one")
    assert folder.event("SubagentStop") == ""


def test_hook_lets_agent_stop_if_blocked_stops_cannot_be_counted(folder: HookFolder) -> None:
    folder.write("one")
    (folder.states / "one.holds").mkdir()
    assert folder.event("Stop") == ""


def test_file_that_counts_blocked_stops_is_readable_by_owner_only(folder: HookFolder) -> None:
    folder.write("one")
    folder.event("Stop")
    assert (folder.states / "one.holds").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.states.iterdir()].count("one.holds") == 1


def test_hook_shows_plan_of_ended_conversation_to_next_conversation(
    folder: HookFolder,
) -> None:
    folder.write("one")
    text = folder.injected(session="two")
    assert text.startswith("An earlier conversation in this directory ended")
    assert STEP in text
    # The new conversation does not hold the step until it claims the step.
    assert folder.event("Stop", "two") == ""
    assert folder.event("PreCompact", "two") == ""


def test_hook_shows_only_the_plan_of_the_same_conversation(folder: HookFolder) -> None:
    folder.write("one", process=os.getpid())
    assert folder.injected(session="two") == ""
    folder.write("two", steps=[], plan={"planId": "other"})
    assert "planId other" in folder.injected(session="two")
    assert PLAN in folder.injected(session="one")


def test_hook_ignores_an_ended_conversation_in_another_directory(folder: HookFolder) -> None:
    folder.write("one", directory="/elsewhere")
    assert folder.injected(session="two") == ""


@pytest.mark.skipif(sys.platform == "win32", reason="on Windows, the hook cannot check the process")
def test_hook_recognizes_conversation_by_client_process_id(folder: HookFolder) -> None:
    # Session ids are not enough: some clients send none, and some change them when a person clears
    # the conversation.
    folder.write("process-1", client=os.getpid(), process=os.getpid())
    assert folder.injected(session="cleared").startswith("Waybook: you work on")
    assert json.loads(folder.run({"hook_event_name": "AfterAgent"}))["decision"] == "deny"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"hook_event_name": ["Stop"]}',
        b'{"hook_event_name": "Stop", "session_id": "../../etc/passwd"}',
        b'{"hook_event_name": "SessionStart", "session_id": 7, "cwd": {}}',
        b'{"hook_event_name": "Unknown", "session_id": "one"}',
    ],
)
def test_plugin_hook_prints_nothing_for_an_invalid_event(folder: HookFolder, text: bytes) -> None:
    folder.write("one", directory="/elsewhere")
    assert folder.run(text) == ""


@pytest.mark.parametrize("name", ["SessionStart", "PreCompact", "Stop", "AfterAgent"])
def test_hook_without_a_state_file_prints_nothing(folder: HookFolder, name: str) -> None:
    assert folder.event(name) == ""


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2}', b'{"format": 1}', b"\xff" * 70_000]
)
def test_hook_with_an_invalid_state_file_prints_nothing(folder: HookFolder, content: bytes) -> None:
    folder.states.mkdir()
    (folder.states / "one.json").write_bytes(content)
    assert folder.event("SessionStart") == folder.event("Stop") == ""


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("missing"))


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 60_000)


def odd(path: Path) -> None:
    state = make_state(client=[], process=2**70, plan={}, steps=[])
    path.write_text(json.dumps({**state, "directory": str(path.parents[1].resolve())}), "utf-8")


def many(path: Path) -> None:
    for number in range(20_000):
        path.with_name(f"bad-{number}.json").touch()


BAD_FILES: dict[str, Callable[[Path], None]] = {
    "dangling link": dangling,
    "named pipe": os.mkfifo,
    "directory": Path.mkdir,
    "deep JSON": deep,
    "odd values": odd,
    "20,000 files": many,
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_invalid_state_file_does_not_affect_other_conversations(
    folder: HookFolder, kind: str
) -> None:
    folder.write("process-1", client=os.getpid(), process=os.getpid())
    BAD_FILES[kind](folder.states / "bad.json")
    assert json.loads(folder.event("Stop", "cleared"))["decision"] == "block"


def test_hook_ends_at_timeout_if_stdin_stays_open(folder: HookFolder) -> None:
    folder.write("one")
    process = subprocess.Popen(
        ["python3", "-I", "-S", str(HOOK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(b'{"hook_event_name": ')
        process.stdin.flush()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert process.stdout.read() == b""


def test_plugin_hook_uses_the_data_directory_in_the_configuration_file(
    folder: HookFolder, tmp_path: Path
) -> None:
    folder.write("one")
    config = tmp_path / "config.toml"
    config.write_text(f"port = 1\ndata_dir = '{tmp_path}' # here\n", "utf-8")
    event = {"hook_event_name": "SessionStart", "session_id": "one"}
    assert STEP in folder.run(event, WAYBOOK_DATA_DIR="", WAYBOOK_CONFIG=str(config))
    assert folder.run(event, WAYBOOK_DATA_DIR="", WAYBOOK_CONFIG="", HOME=str(tmp_path)) == ""


def test_plugin_hook_imports_only_standard_library() -> None:
    tree = ast.parse(HOOK.read_text("utf-8"))
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert names <= sys.stdlib_module_names
    # Imports delay every event by milliseconds, so the hook imports nothing else.
    assert names == {"json", "os", "signal", "sys"}


HOSTILE = st.text(st.characters(categories=["L", "N", "P", "S", "Z", "C"]), max_size=300)
WORST = st.sampled_from(["😀" * 200, "ꙮ" * 200, '"' * 200, "\\" * 200, "\u202e" * 200])
TEXTS = HOSTILE | WORST
IDS = st.sampled_from([PLAN, "Zq7-" * 10, "x" * 41, "a b"])


@given(name=TEXTS, title=TEXTS, session=TEXTS, step_id=IDS, order=st.integers(), many=st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_plugin_hook_output_has_limited_length_for_any_text(
    name: str, title: str, session: str, step_id: str, order: int, *, many: bool
) -> None:
    step = {"planId": PLAN, "stepId": step_id, "attempt": 10**5, "order": order, "title": title}
    state = make_state(
        plan={"planId": PLAN, "name": name, "status": "awaiting_review", "done": 1, "total": 200},
        steps=[{**step, "sessionId": session}] * (2 if many else 1),
    )
    between_steps = {**state, "steps": [], "plan": {**state["plan"], **between(1)["plan"]}}
    texts = [waybook_hook.open_work(each)[1] for each in (state, between_steps)]
    for text in (waybook_hook.describe(state), waybook_hook.describe_ended(state), *texts):
        assert text is not None
        assert count_tokens(text) <= MAX_TOKENS
        assert len(text) < MAX_CHARACTERS
        assert text.count("\n") <= 5
