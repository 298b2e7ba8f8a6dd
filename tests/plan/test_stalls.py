from datetime import timedelta

from plan_builders import (
    ANN,
    NOON,
    PAT,
    make_condition,
    make_context,
    make_plan,
    make_review,
    make_step,
    moves_of,
    step_id,
)
from waybook.plan.model import BranchAction, DecisionKind, Plan, PlanStatus, StepStatus
from waybook.plan.modify import FailStep, modify
from waybook.plan.next_step import next_step
from waybook.plan.progress import (
    DEFAULT_STALL_THRESHOLD,
    detect_stalled_steps,
    last_heartbeat,
    newly_stalled,
    stall_threshold,
    time_until_stall,
)
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.submit import Submission, submit

S = StepStatus
#: Stall threshold of the server, so long that every holder in these tests counts as active.
HOURS = timedelta(hours=8)


def make_stalled_plan() -> Plan:
    """Return a stalled plan, whose last step had its last heartbeat at noon."""
    return make_plan(make_step(S.COMPLETED), make_step(S.IN_PROGRESS), status=PlanStatus.STALLED)


def test_stall_threshold_of_step_overrides_those_of_plan_and_server() -> None:
    plan = make_plan(make_step(), stall_seconds=120)
    assert stall_threshold(plan, make_step(stall_seconds=60)) == timedelta(minutes=1)
    assert stall_threshold(plan, make_step(stall_seconds=0)) == timedelta(0)
    assert stall_threshold(plan, make_step()) == timedelta(minutes=2)
    assert stall_threshold(make_plan(), make_step()) == DEFAULT_STALL_THRESHOLD
    assert stall_threshold(make_plan(), make_step(), timedelta(hours=1)) == timedelta(hours=1)


def test_recent_heartbeat_prevents_a_step_from_stalling() -> None:
    seen = make_step(S.IN_PROGRESS, last_seen_at=NOON + timedelta(minutes=20))
    assert detect_stalled_steps(make_plan(seen), now=NOON + timedelta(minutes=50)) == ()
    assert last_heartbeat(seen) == NOON + timedelta(minutes=20)
    assert last_heartbeat(make_step()) is None
    assert last_heartbeat(make_step(S.IN_PROGRESS, in_progress_since=None)) is None


def test_plan_stalls_as_soon_as_any_step_in_progress_stalls() -> None:
    seen = make_step(S.IN_PROGRESS, last_seen_at=NOON + timedelta(minutes=20))
    short = make_step(S.IN_PROGRESS, stall_seconds=60)
    plan = make_plan(seen, short, make_step())
    assert time_until_stall(plan, now=NOON) == timedelta(minutes=1)
    assert time_until_stall(plan, now=NOON + timedelta(minutes=2)) == timedelta(minutes=48)
    assert time_until_stall(plan, now=NOON + timedelta(minutes=51)) is None
    assert time_until_stall(make_plan(make_step()), now=NOON) is None


def test_asking_for_a_step_sets_a_stalled_plan_to_executing() -> None:
    woken = next_step(make_stalled_plan(), make_context(PAT, minutes=60), patience=HOURS)
    assert woken.reply is woken.plan.status is PlanStatus.EXECUTING
    assert woken.entries[0].details == {"action": "resumed"}


def test_last_result_sets_stalled_plan_to_executing_then_completed() -> None:
    late = make_context(minutes=60)
    done = submit(make_stalled_plan(), step_id(2), Submission(result_summary=1), late)
    assert moves_of(done, "p") == [("stalled", "executing"), ("executing", "completed")]


def test_stalled_plan_becomes_executing_before_the_plan_awaits_review() -> None:
    late = make_context(minutes=60)
    requested = request_review(make_stalled_plan(), step_id(2), ReviewRequest(summary="?"), late)
    assert moves_of(requested, "p") == [("stalled", "executing"), ("executing", "awaiting_review")]


def test_resumed_plan_is_not_stalled_again_before_the_threshold() -> None:
    woken = next_step(make_stalled_plan(), make_context(PAT, minutes=60), patience=HOURS).plan
    soon, late = NOON + timedelta(minutes=61), NOON + timedelta(minutes=91)
    assert newly_stalled(woken, now=soon) == ()
    assert [step.id for step, _ in detect_stalled_steps(woken, now=soon)] == ["s2"]
    assert [step.id for step, _ in newly_stalled(woken, now=late)] == ["s2"]
    failed = modify(woken, (FailStep(step_id(2), "gone"),), make_context(PAT, minutes=61))
    assert failed.plan.status is PlanStatus.COMPLETED


def test_time_awaiting_review_does_not_count_toward_a_stall() -> None:
    waiting = make_plan(make_step(S.AWAITING_INPUT), review=make_review(1))
    assert detect_stalled_steps(waiting, now=NOON + timedelta(days=3)) == ()
    days_later = make_context(ANN, minutes=3 * 24 * 60)
    back = decide(waiting, DecisionKind.MODIFY, days_later, feedback="Again.").plan
    assert back.step(step_id(1)).in_progress_since == days_later.now
    assert detect_stalled_steps(back, now=days_later.now + timedelta(minutes=5)) == ()


def test_fail_condition_sets_stalled_plan_to_executing_then_failed() -> None:
    fail = make_condition(2, "true", BranchAction.FAIL)
    plan = make_stalled_plan()._replace(conditions=(fail,))
    done = submit(plan, step_id(2), Submission(result_summary=1), make_context(minutes=60))
    assert moves_of(done, "p") == [("stalled", "executing"), ("executing", "failed")]
