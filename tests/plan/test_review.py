import pytest

from decisions import decision
from plan_builders import (
    ANN,
    NOON,
    PAT,
    a_moment,
    a_plan,
    a_review,
    a_step,
    changes_of,
    events_of,
    moves_of,
    statuses,
    step_id,
)
from waybook.core.decision_context import Channel
from waybook.errors import InvalidInput, InvalidTransition, NotAwaitingReview, PlanTerminal
from waybook.plan.model import DecisionKind, Plan
from waybook.plan.review import ReviewRequest, ReviewSurface, decide, open_review, request_review
from waybook.plan.states import PlanStatus, StepStatus

S = StepStatus
K = DecisionKind
ASKED = ReviewRequest(summary="Is this right?", questions=("Sure?",), result_summary={"found": 3})


def a_waiting_plan(*others: StepStatus) -> Plan:
    """Return a plan whose first step waits for a person."""
    return a_plan(a_step(S.AWAITING_INPUT), *map(a_step, others), review=a_review(1))


def a_decided_plan(status: PlanStatus | None = None) -> Plan:
    decided = a_review(
        1, decision=K.REJECT, decided_by="pat", decided_via=Channel.DASHBOARD, decided_at=NOON
    )
    return a_plan(a_step(S.FAILED), a_step(), status=status, review=decided)


# Requesting


def test_a_running_step_pauses_for_a_person() -> None:
    requested = request_review(
        a_plan(a_step(S.IN_PROGRESS), a_step()), step_id(1), ASKED, a_moment()
    )
    assert requested.plan.status is PlanStatus.AWAITING_REVIEW
    assert statuses(requested.plan) == ["awaiting_input", "pending"]
    assert events_of(requested) == ["user_reviewed"]
    assert requested.entries[0].details["action"] == "review_requested"
    assert open_review(requested.plan) == requested.reply
    assert requested.reply.questions == ("Sure?",)
    assert requested.reply.requested_by == "ann"


@pytest.mark.parametrize("status", [S.PENDING, S.COMPLETED, S.FAILED, S.SKIPPED])
def test_only_a_running_step_can_wait_for_a_person(status: StepStatus) -> None:
    with pytest.raises(InvalidTransition) as refusal:
        request_review(a_plan(a_step(status), a_step()), step_id(1), ASKED, a_moment())
    assert refusal.value.details["from"] == status
    assert refusal.value.details["to"] == "awaiting_input"


@decision("A28")
def test_a_second_review_is_refused_while_one_is_open() -> None:
    with pytest.raises(InvalidTransition, match="one review at a time"):
        request_review(a_waiting_plan(S.IN_PROGRESS), step_id(2), ASKED, a_moment())


def test_the_result_of_a_review_has_the_shape_the_step_asks_for() -> None:
    plan = a_plan(a_step(S.IN_PROGRESS), schema={"required": ["sources"]})
    with pytest.raises(InvalidInput, match="sources"):
        request_review(plan, step_id(1), ASKED, a_moment())
    without = ReviewRequest(summary="Is this right?")
    assert request_review(plan, step_id(1), without, a_moment()).reply.result_summary is None


# Deciding


@decision("A3")
@pytest.mark.parametrize(("kind", "step"), [(K.APPROVE, "completed"), (K.SKIP, "skipped")])
def test_a_decision_on_the_last_step_completes_the_plan(kind: DecisionKind, step: str) -> None:
    done = decide(a_waiting_plan(S.FAILED), kind, a_moment(PAT))
    assert statuses(done.plan) == [step, "failed"]
    assert moves_of(done, "p") == [("awaiting_review", "executing"), ("executing", "completed")]


@pytest.mark.parametrize("kind", [K.APPROVE, K.SKIP])
def test_a_decision_lets_the_plan_go_on(kind: DecisionKind) -> None:
    done = decide(a_waiting_plan(S.PENDING), kind, a_moment(PAT))
    assert done.plan.status is PlanStatus.EXECUTING
    assert events_of(done) == ["user_reviewed"]
    assert done.entries[0].details["decision"] == kind
    assert open_review(done.plan) is None


@decision("A38")
def test_approval_keeps_the_result_the_review_brought() -> None:
    plan = a_plan(a_step(S.IN_PROGRESS), a_step())
    paused_plan = request_review(plan, step_id(1), ASKED, a_moment()).plan
    done = decide(paused_plan, K.APPROVE, a_moment(PAT))
    assert ("result_summary", {"found": 3}) in [(c.field, c.new) for c in changes_of(done)]


@decision("A9")
@pytest.mark.parametrize(
    ("feedback", "reason"), [(None, "rejected by pat"), ("Wrong.", "rejected by pat: Wrong.")]
)
def test_rejection_fails_step_and_plan_and_leaves_the_rest(
    feedback: str | None, reason: str
) -> None:
    plan = a_waiting_plan(S.IN_PROGRESS, S.PENDING)
    done = decide(plan, K.REJECT, a_moment(PAT), feedback=feedback)
    assert done.plan.status is PlanStatus.FAILED
    assert done.plan.fail_reason == reason
    assert done.plan.steps[0].fail_reason == reason
    assert done.plan.steps[1:] == plan.steps[1:]
    assert moves_of(done, "p") == [("awaiting_review", "failed")]


def test_modify_sends_the_step_back_with_the_feedback() -> None:
    done = decide(a_waiting_plan(), K.MODIFY, a_moment(ANN, minutes=9), feedback="Add prices.")
    step = done.reply.step
    assert (step.status, step.attempt) == (S.IN_PROGRESS, 2)
    assert (step.held_by, step.held_session) == ("ann", "a")
    assert step.in_progress_since == a_moment(minutes=9).now
    text = done.plan.texts[step.id].instructions
    assert text == "Look it up.\n\n---\n\nUser feedback: Add prices."
    assert done.plan.status is PlanStatus.EXECUTING
    assert done.plan.revision == 2


@pytest.mark.parametrize("feedback", [None, "", "  \n"])
def test_modify_needs_feedback(feedback: str | None) -> None:
    with pytest.raises(InvalidInput, match="feedback"):
        decide(a_waiting_plan(), K.MODIFY, a_moment(), feedback=feedback)


def test_decide_second_decision_reports_first_decision() -> None:
    first = decide(a_waiting_plan(S.PENDING), K.SKIP, a_moment(PAT), feedback="Not needed.")
    with pytest.raises(NotAwaitingReview) as refusal:
        decide(first.plan, K.APPROVE, a_moment(ANN), step_id=step_id(1))
    assert refusal.value.details == {
        "decision": "skip",
        "decidedBy": "pat",
        "decidedVia": "dashboard",
        "decidedAt": NOON.isoformat(),
        "feedback": "Not needed.",
    }


def test_a_decision_on_a_review_that_was_read_is_on_no_other() -> None:
    plan = a_waiting_plan(S.PENDING)
    assert plan.review is not None
    with pytest.raises(NotAwaitingReview, match="another one") as refusal:
        decide(plan, K.APPROVE, a_moment(), review_id=step_id(9))
    assert refusal.value.details == {"reviewId": plan.review.id}
    done = decide(plan, K.APPROVE, a_moment(), review_id=plan.review.id)
    assert statuses(done.plan) == ["completed", "pending"]


def test_decide_on_failed_plan_reports_first_decision() -> None:
    with pytest.raises(NotAwaitingReview, match="pat said reject"):
        decide(a_decided_plan(PlanStatus.FAILED), K.APPROVE, a_moment())


def test_a_plan_that_is_over_says_so_where_no_review_was_decided() -> None:
    with pytest.raises(PlanTerminal):
        decide(a_decided_plan(PlanStatus.FAILED), K.APPROVE, a_moment(), step_id=step_id(2))
    frozen = a_plan(a_step(S.AWAITING_INPUT), status=PlanStatus.FAILED, review=a_review(1))
    with pytest.raises(PlanTerminal):
        decide(frozen, K.APPROVE, a_moment())


def test_nothing_is_decided_where_nothing_waits() -> None:
    with pytest.raises(NotAwaitingReview, match="waits for a decision"):
        decide(a_plan(a_step()), K.APPROVE, a_moment())
    with pytest.raises(NotAwaitingReview, match="waits for a decision"):
        decide(a_waiting_plan(S.PENDING), K.APPROVE, a_moment(), step_id=step_id(2))


# Channel of the decision


def test_decide_modify_in_app_records_place_and_leaves_step_unassigned() -> None:
    plan = a_waiting_plan(S.PENDING)
    decided = decide(plan, K.MODIFY, a_moment(), feedback="More.", place=ReviewSurface.APP)
    assert decided.entries[0].details["place"] == "app"
    assert decided.plan.step(step_id(1)).held_by is None
    relayed = decide(plan, K.MODIFY, a_moment(), feedback="More.")
    assert "place" not in relayed.entries[0].details
    assert relayed.plan.step(step_id(1)).held_by == "ann"
