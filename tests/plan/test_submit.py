from dataclasses import replace

import pytest

from plan_builders import (
    ANN,
    BOB,
    NOON,
    changes_of,
    make_context,
    make_plan,
    make_review,
    make_step,
    moves_of,
    statuses,
    step_id,
)
from waybook.core.changes import Change
from waybook.core.decision_context import Actor
from waybook.core.usage import Totals, Usage
from waybook.errors import InvalidTransition, PlanTerminal, StaleAttempt
from waybook.plan.draft import Decision
from waybook.plan.model import PlanStatus, StepId, StepStatus
from waybook.plan.submit import Submission, submit

S = StepStatus
DONE = Submission(
    result_summary={"found": 3},
    confidence=0.5,
    report={"steps": 1},
    formatting_notes="As a table.",
    usage=Usage(input_tokens=10, cost_micros=2, model="m"),
)


def test_usage_of_a_result_is_added_to_the_plan() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS, attempt=2), make_step())
    plan = plan._replace(usage=Totals(input_tokens=5, output_tokens=1, cost_micros=3, results=1))
    done = submit(plan, step_id(1), DONE, make_context())
    (row,) = [change.new for change in changes_of(done) if change.entity == "usage"]
    reported = {"input_tokens": 10, "output_tokens": None, "cost_micros": 2, "model": "m"}
    about = {"step_id": "s1", "attempt": 2, "at": NOON.isoformat(), "by": "ann", "session": "a"}
    assert row == {**reported, **about}
    sums = Totals(input_tokens=15, output_tokens=1, cost_micros=5, results=2)
    assert done.plan.usage == sums
    (change,) = [change for change in changes_of(done) if change.field == "usage"]
    assert (change.old, change.new) == (plan.usage._asdict(), sums._asdict())


def test_pending_step_becomes_in_progress_before_the_step_completes() -> None:
    done = submit(make_plan(make_step(), make_step()), step_id(1), DONE, make_context())
    assert moves_of(done, "s1") == [("pending", "in_progress"), ("in_progress", "completed")]
    assert moves_of(done, "p") == [("planning", "executing")]


def test_result_for_the_last_open_step_completes_the_plan() -> None:
    done = submit(make_plan(make_step()), step_id(1), DONE, make_context())
    assert moves_of(done, "p") == [("planning", "executing"), ("executing", "completed")]
    assert "completed_at" in {change.field for change in changes_of(done) if change.id == "p"}


@pytest.mark.parametrize("status", [S.COMPLETED, S.SKIPPED, S.FAILED, S.AWAITING_INPUT])
def test_result_for_a_step_in_review_or_ended_is_refused_but_stored(status: StepStatus) -> None:
    plan = make_plan(make_step(status), make_step())
    late = submit(plan, step_id(1), DONE, make_context())
    assert isinstance(late.refusal, InvalidTransition)
    assert late.refusal.details["from"] == status
    assert late.refusal.details["to"] == "completed"
    assert late.refusal.next_call is not None
    assert late.plan.steps == plan.steps
    assert late.refusal.details["artifactId"] == stored_artifact(late).id


@pytest.mark.parametrize("attempt", [None, 1])
@pytest.mark.parametrize("status", [None, PlanStatus.FAILED])
def test_repeated_result_of_the_holder_is_not_stored(
    attempt: int | None, status: PlanStatus | None
) -> None:
    done = make_step(S.COMPLETED, held_by="ann", held_session="a")
    plan = make_plan(done, make_step(), status=status)
    with pytest.raises(PlanTerminal if status else InvalidTransition):
        submit(plan, step_id(1), replace(DONE, attempt=attempt), make_context())


def test_result_without_attempt_is_accepted_if_step_has_no_holder() -> None:
    unheld = make_step(S.IN_PROGRESS, held_by=None, held_session=None)
    done = submit(make_plan(unheld, make_step()), step_id(1), DONE, make_context(BOB))
    assert done.refusal is None
    assert statuses(done.plan) == ["completed", "pending"]


@pytest.mark.parametrize("actor", [ANN, BOB])
@pytest.mark.parametrize("attempt", [None, 1, 9])
@pytest.mark.parametrize("status", [PlanStatus.COMPLETED, PlanStatus.FAILED])
def test_result_for_a_closed_plan_is_refused_but_stored(
    status: PlanStatus, attempt: int | None, actor: Actor
) -> None:
    plan = make_plan(make_step(S.IN_PROGRESS), status=status, sessions=frozenset[str]())
    late = submit(plan, step_id(1), replace(DONE, attempt=attempt), make_context(actor))
    assert isinstance(late.refusal, PlanTerminal)
    assert late.refusal.details["status"] == status
    assert late.refusal.details["artifactId"] == stored_artifact(late).id
    assert late.refusal.next_call is not None
    assert late.refusal.next_call.args == {"planId": "p"}
    assert [entry.details["action"] for entry in late.entries] == ["late_result_kept"]
    usage = plan.usage.plus(DONE.usage) if DONE.usage else plan.usage
    assert late.plan == plan._replace(seq=plan.seq + 1, usage=usage)


@pytest.mark.parametrize("attempt", [-1, 0, 2, 5])
def test_result_for_unknown_attempt_suggests_the_next_call(attempt: int) -> None:
    plan = make_plan(make_step(S.IN_PROGRESS), make_step())
    done = Submission(result_summary="late", attempt=attempt)
    refusal = submit(plan, step_id(1), done, make_context(BOB)).refusal
    assert isinstance(refusal, StaleAttempt)
    assert refusal.message.startswith(
        f"attempt {attempt} of step 1 does not exist: the step is at attempt 1, in_progress."
    )
    assert refusal.next_call is not None
    assert refusal.next_call.tool == "get_next_step"


def stored_artifact(late: Decision[object]) -> Change:
    (artifact,) = [change for change in changes_of(late) if change.entity == "artifact"]
    return artifact


def test_step_can_be_completed_while_another_is_in_review() -> None:
    plan = make_plan(make_step(S.AWAITING_INPUT), make_step(S.IN_PROGRESS), review=make_review(1))
    done = submit(plan, step_id(2), DONE, make_context())
    assert done.plan.status is PlanStatus.AWAITING_REVIEW
    assert statuses(done.plan) == ["awaiting_input", "completed"]


def test_result_for_an_unknown_step_is_refused() -> None:
    with pytest.raises(Exception, match="no such step"):
        submit(make_plan(make_step()), StepId("gone"), DONE, make_context())
