"""State of a conversation: derived from replies, equal to a simple model, and bounded."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.transport.mcp.conversation_files import (
    MAX_FILE_BYTES,
    MAX_HELD_STEPS,
    NOT_HELD,
    State,
    observe,
    observe_error,
)

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
def test_conversation_state_contains_claimed_steps_until_submission(
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
def test_conversation_state_is_empty_after_plan_closes_without_output(status: str) -> None:
    reply = {"status": status, "planId": "p", "next": {"tool": "list_active_plans"}}
    assert observe(claim({}, "p", "s"), "get_next_step", {"planId": "p"}, reply) == {}


def test_completed_plan_stays_in_conversation_state_until_output_is_stored() -> None:
    reply = {"status": "plan_complete", "planId": "p", "next": {"tool": "store_research_output"}}
    state = observe(claim({}, "p", "s"), "get_next_step", {"planId": "p"}, reply)
    assert (state["steps"], state["next"]) == ([], "store_research_output")
    assert observe(state, "store_research_output", {}, {"planId": "p", "status": "stored"}) == {}


def test_failed_plan_keeps_steps_of_other_plans_in_conversation_state() -> None:
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
def test_retryable_error_keeps_the_step_in_the_conversation_state(code: str | None) -> None:
    state = claim({}, "p", "s")
    assert observe_error(state, {"stepId": "s"}, code) == state


def test_unknown_plan_is_removed_from_the_conversation_state() -> None:
    state = claim({}, "p", "s")
    assert observe_error(state, {"planId": "p"}, "NOT_FOUND") == {}
    assert observe_error(state, {"planId": "q"}, "NOT_FOUND") == state
