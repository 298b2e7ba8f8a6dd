"""Steps of inactive holders go to other agents, or fail after too many inactive holders."""

from datetime import timedelta

import pytest

from plan_builders import (
    ANN,
    BOB,
    NOON,
    PAT,
    events_of,
    make_context,
    make_plan,
    make_step,
    step_id,
)
from waybook.core.changes import Event
from waybook.core.decision_context import Actor, Channel
from waybook.plan.model import DEFAULT_MAX_ATTEMPTS, Plan, PlanStatus, StepStatus
from waybook.plan.modify import RetryStep, modify
from waybook.plan.next_step import StepReady, next_step

S = StepStatus


def held_by_ann(**values: object) -> Plan:
    """Return a plan with one step, which Ann claimed at noon."""
    step = make_step(S.IN_PROGRESS, held_by=ANN.user, held_session=ANN.session)
    return make_plan(step._replace(**values))  # type: ignore[arg-type]  # names are Step's own


def asked(plan: Plan, actor: Actor, minutes: float) -> object:
    return next_step(plan, make_context(actor, minutes=minutes)).reply


def test_step_of_inactive_holder_goes_to_the_next_caller() -> None:
    taken = next_step(held_by_ann(), make_context(BOB, minutes=31))
    assert isinstance(taken.reply, StepReady)
    assert taken.reply.taken_over == (held_by_ann().step(step_id(1)), timedelta(minutes=31))
    step = taken.plan.step(step_id(1))
    assert (step.held_by, step.attempt, step.silent_holders) == (BOB.user, 2, 1)
    assert step.in_progress_since == NOON + timedelta(minutes=31)
    assert taken.entries[-1].event is Event.STEP_STARTED
    assert taken.entries[-1].details["reclaimedFrom"] == ANN.user
    assert taken.entries[-1].details["silentMinutes"] == 31


def test_held_step_cannot_be_claimed_before_the_stall_threshold() -> None:
    assert asked(held_by_ann(), BOB, 30) is PlanStatus.EXECUTING
    assert isinstance(asked(held_by_ann(stall_seconds=60), BOB, 2), StepReady)
    seen = NOON + timedelta(minutes=20)
    assert asked(held_by_ann(last_seen_at=seen), BOB, 45) is PlanStatus.EXECUTING


def test_inactive_holder_that_calls_again_keeps_step_and_attempt() -> None:
    same = next_step(held_by_ann(), make_context(ANN, minutes=45))
    assert isinstance(same.reply, StepReady)
    assert same.reply.taken_over is None
    assert same.plan.step(step_id(1)).attempt == 1


def test_holder_asking_for_another_step_never_gets_the_held_step() -> None:
    reply = next_step(held_by_ann(), make_context(ANN, minutes=45), another=True).reply
    assert reply is PlanStatus.EXECUTING


def test_pending_steps_are_claimed_before_steps_of_inactive_holders() -> None:
    silent = make_step(S.IN_PROGRESS, held_by=ANN.user, held_session=ANN.session)
    plan = make_plan(silent, make_step())
    taken = next_step(plan, make_context(BOB, minutes=45))
    assert isinstance(taken.reply, StepReady)
    assert taken.reply.step.id == step_id(2)


@pytest.mark.parametrize("limit", [None, 1, 2, 5])
def test_step_fails_after_the_maximum_number_of_inactive_holders(limit: int | None) -> None:
    plan, most = held_by_ann(max_attempts=limit), limit or DEFAULT_MAX_ATTEMPTS
    for number in range(1, most):
        agent = Actor(f"agent {number}", Channel.MCP, session=f"{number}")
        plan = next_step(plan, make_context(agent, minutes=31 * number)).plan
        assert plan.step(step_id(1)).held_by == agent.user
    decided = next_step(plan, make_context(BOB, minutes=31 * most))
    plan = decided.plan
    assert decided.reply is PlanStatus.COMPLETED
    assert events_of(decided) == ["step_failed"]
    failed = plan.step(step_id(1))
    assert failed.status is S.FAILED
    assert "stopped responding" in (failed.fail_reason or "")
    assert plan.status is PlanStatus.COMPLETED


def test_steps_that_depend_on_a_step_failed_by_inactivity_become_ready() -> None:
    silent = make_step(S.IN_PROGRESS, held_by=ANN.user, held_session="a", max_attempts=1)
    plan = make_plan(silent, make_step(depends_on=(step_id(1),)))
    taken = next_step(plan, make_context(BOB, minutes=45))
    assert isinstance(taken.reply, StepReady)
    assert taken.reply.step.id == step_id(2)
    assert taken.plan.step(step_id(1)).status is S.FAILED


def test_retry_by_a_person_resets_the_count_of_inactive_holders() -> None:
    plan = held_by_ann(silent_holders=2)
    back = modify(plan, (RetryStep(step_id(1)),), make_context(PAT)).plan
    assert back.step(step_id(1)).silent_holders is None


def test_claim_by_another_agent_resumes_a_stalled_plan() -> None:
    stalled = held_by_ann()._replace(status=PlanStatus.STALLED)
    taken = next_step(stalled, make_context(BOB, minutes=60))
    assert isinstance(taken.reply, StepReady)
    assert taken.plan.status is PlanStatus.EXECUTING
    assert [entry.details.get("action") for entry in taken.entries] == ["resumed", "taken_over"]
