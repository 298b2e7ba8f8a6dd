from dataclasses import replace

import pytest

from plan_builders import (
    ANN,
    NOON,
    PAT,
    changes_of,
    events_of,
    make_context,
    make_plan,
    make_review,
    make_step,
    moves_of,
    statuses,
    step_id,
)
from waybook.core.decision_context import Channel
from waybook.errors import (
    InvalidInput,
    InvalidTransition,
    NotAwaitingReview,
    PlanTerminal,
    StaleAttempt,
)
from waybook.plan.model import DecisionKind, Plan, PlanStatus, StepStatus
from waybook.plan.progress import open_review
from waybook.plan.review import ReviewRequest, ReviewSurface, decide, request_review

S = StepStatus
K = DecisionKind
REVIEW_REQUEST = ReviewRequest(
    summary="Is this right?", questions=("Sure?",), result_summary={"found": 3}
)


def make_waiting_plan(*others: StepStatus) -> Plan:
    """Return a plan whose first step awaits review; the other steps have these statuses."""
    return make_plan(make_step(S.AWAITING_INPUT), *map(make_step, others), review=make_review(1))


def make_decided_plan(status: PlanStatus | None = None) -> Plan:
    decided = make_review(
        1, decision=K.REJECT, decided_by="pat", decided_via=Channel.DASHBOARD, decided_at=NOON
    )
    return make_plan(make_step(S.FAILED), make_step(), status=status, review=decided)


@pytest.mark.parametrize("status", [S.PENDING, S.COMPLETED, S.FAILED, S.SKIPPED])
def test_review_of_a_step_not_in_progress_is_refused(status: StepStatus) -> None:
    plan = make_plan(make_step(status), make_step())
    refused = request_review(plan, step_id(1), REVIEW_REQUEST, make_context())
    assert isinstance(refused.refusal, InvalidTransition)
    assert refused.refusal.details["from"] == status
    assert refused.refusal.details["to"] == "awaiting_input"


def test_request_review_while_review_is_open_raises_invalid_transition() -> None:
    plan, without = make_waiting_plan(S.IN_PROGRESS), ReviewRequest(summary="?", attempt=1)
    with pytest.raises(InvalidTransition, match="only one can be open at a time"):
        request_review(plan, step_id(2), without, make_context())


@pytest.mark.parametrize("attempt", [None, 1])
def test_review_request_of_a_former_holder_stores_late_result(attempt: int | None) -> None:
    step = make_step(S.IN_PROGRESS, attempt=2, held_by="bob")
    request = replace(REVIEW_REQUEST, attempt=attempt)
    refused = request_review(make_plan(step), step_id(1), request, make_context())
    assert isinstance(refused.refusal, StaleAttempt)
    assert refused.plan.review is None
    assert statuses(refused.plan) == ["in_progress"]
    assert refused.entries[0].details["action"] == "late_result_kept"


def test_repeated_review_request_is_refused_without_a_late_result() -> None:
    with pytest.raises(InvalidTransition, match="only one can be open at a time"):
        request_review(make_waiting_plan(), step_id(1), REVIEW_REQUEST, make_context())


def test_review_request_that_violates_the_schema_is_refused() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS), schema={"required": ["sources"]})
    with pytest.raises(InvalidInput, match="sources"):
        request_review(plan, step_id(1), REVIEW_REQUEST, make_context())
    without = ReviewRequest(summary="Is this right?")
    assert request_review(plan, step_id(1), without, make_context()).reply.result_summary is None


@pytest.mark.parametrize(("kind", "step"), [(K.APPROVE, "completed"), (K.SKIP, "skipped")])
def test_approving_or_skipping_the_last_open_step_completes_the_plan(
    kind: DecisionKind, step: str
) -> None:
    done = decide(make_waiting_plan(S.FAILED), kind, make_context(PAT))
    assert statuses(done.plan) == [step, "failed"]
    assert moves_of(done, "p") == [("awaiting_review", "executing"), ("executing", "completed")]


@pytest.mark.parametrize("kind", [K.APPROVE, K.SKIP])
def test_plan_with_pending_steps_continues_after_approve_or_skip(kind: DecisionKind) -> None:
    done = decide(make_waiting_plan(S.PENDING), kind, make_context(PAT))
    assert done.plan.status is PlanStatus.EXECUTING
    assert events_of(done) == ["user_reviewed"]
    assert done.entries[0].details["decision"] == kind
    assert open_review(done.plan) is None


def test_approval_stores_the_result_submitted_with_the_review_request() -> None:
    plan = make_plan(make_step(S.IN_PROGRESS), make_step())
    paused_plan = request_review(plan, step_id(1), REVIEW_REQUEST, make_context()).plan
    done = decide(paused_plan, K.APPROVE, make_context(PAT))
    assert ("result_summary", {"found": 3}) in [(c.field, c.new) for c in changes_of(done)]


@pytest.mark.parametrize(
    ("feedback", "reason"), [(None, "rejected by pat"), ("Wrong.", "rejected by pat: Wrong.")]
)
def test_reject_decision_fails_step_and_plan_but_changes_no_other_step(
    feedback: str | None, reason: str
) -> None:
    plan = make_waiting_plan(S.IN_PROGRESS, S.PENDING)
    done = decide(plan, K.REJECT, make_context(PAT), feedback=feedback)
    assert done.plan.status is PlanStatus.FAILED
    assert done.plan.fail_reason == reason
    assert done.plan.steps[0].fail_reason == reason
    assert done.plan.steps[1:] == plan.steps[1:]
    assert moves_of(done, "p") == [("awaiting_review", "failed")]


@pytest.mark.parametrize("feedback", [None, "", "  \n"])
def test_modify_decision_without_feedback_raises_invalid_input(feedback: str | None) -> None:
    with pytest.raises(InvalidInput, match="feedback"):
        decide(make_waiting_plan(), K.MODIFY, make_context(), feedback=feedback)


def test_decision_with_the_id_of_another_review_is_refused() -> None:
    plan = make_waiting_plan(S.PENDING)
    assert plan.review is not None
    with pytest.raises(NotAwaitingReview, match="another one") as refusal:
        decide(plan, K.APPROVE, make_context(), review_id=step_id(9))
    assert refusal.value.details == {"reviewId": plan.review.id}
    done = decide(plan, K.APPROVE, make_context(), review_id=plan.review.id)
    assert statuses(done.plan) == ["completed", "pending"]


def test_decision_on_a_failed_plan_shows_the_first_decision() -> None:
    with pytest.raises(NotAwaitingReview, match="pat chose reject"):
        decide(make_decided_plan(PlanStatus.FAILED), K.APPROVE, make_context())


def test_open_review_of_a_closed_plan_cannot_be_decided() -> None:
    with pytest.raises(PlanTerminal):
        decide(make_decided_plan(PlanStatus.FAILED), K.APPROVE, make_context(), step_id=step_id(2))
    frozen = make_plan(make_step(S.AWAITING_INPUT), status=PlanStatus.FAILED, review=make_review(1))
    with pytest.raises(PlanTerminal):
        decide(frozen, K.APPROVE, make_context())


def test_decision_without_open_review_raises_not_awaiting_review() -> None:
    with pytest.raises(NotAwaitingReview, match="has no open review"):
        decide(make_plan(make_step()), K.APPROVE, make_context())
    with pytest.raises(NotAwaitingReview, match="has no open review"):
        decide(make_waiting_plan(S.PENDING), K.APPROVE, make_context(), step_id=step_id(2))


@pytest.mark.parametrize(
    ("place", "holder"),
    [
        (ReviewSurface.APP, None),
        (ReviewSurface.TASK, None),
        (ReviewSurface.CLIENT, None),
        (ReviewSurface.FORM, "ann"),
    ],
)
def test_modify_decision_releases_step_unless_made_in_a_chat_form(
    place: ReviewSurface, holder: str | None
) -> None:
    plan = make_waiting_plan(S.PENDING)
    decided = decide(plan, K.MODIFY, make_context(), feedback="More.", place=place)
    assert decided.entries[0].details["place"] == str(place)
    assert decided.plan.step(step_id(1)).held_by == holder


@pytest.mark.parametrize(("session", "holder"), [("a", "ann"), ("b", None), (None, None)])
def test_holder_that_relays_a_modify_decision_keeps_the_step(
    session: str | None, holder: str | None
) -> None:
    plan = make_waiting_plan(S.PENDING)
    context = make_context(ANN._replace(session=session))
    relayed = decide(plan, K.MODIFY, context, feedback="More.")
    assert "place" not in relayed.entries[0].details
    assert relayed.plan.step(step_id(1)).held_by == holder
