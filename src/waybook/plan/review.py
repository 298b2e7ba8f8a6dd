"""Reviews: a step pauses until a person decides how to continue."""

from dataclasses import dataclass
from enum import StrEnum

from waybook.core.changes import Entity, Event
from waybook.core.decision_context import (
    Actor,
    DecisionContext,
    is_current_attempt,
    require_decider,
)
from waybook.core.pseudonyms import rejection_reason
from waybook.errors import InvalidInput, InvalidTransition, NextCall, NotAwaitingReview, Refused
from waybook.json_values import Json
from waybook.plan.draft import (
    Decision,
    Draft,
    closed_plan_error,
    register_session,
    require_open,
    resume_plan,
    review_row,
    settle,
    status_call,
)
from waybook.plan.model import (
    CLOSED_PLAN,
    MAX_WAIT_SECONDS,
    DecisionKind,
    Plan,
    PlanStatus,
    Review,
    ReviewId,
    Step,
    StepId,
    StepStatus,
    can_move_step,
)
from waybook.plan.schema import check_result
from waybook.plan.submit import StepDone, Submission, complete, keep_late_result, stale_attempt


class ReviewSurface(StrEnum):
    """Place where a person decides a review directly, without an agent that relays the decision."""

    APP = "app"
    FORM = "form"
    TASK = "task"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    summary: str
    questions: tuple[str, ...] = ()
    result_summary: Json = None
    attempt: int | None = None


def request_review(
    plan: Plan, step_id: StepId, request: ReviewRequest, context: DecisionContext
) -> Decision[Review]:
    """Pause a step in progress until a person decides.

    If the request is refused and has a result, the result is stored as a late result.

    Raises:
        PlanTerminal: the plan is closed, and the request has no result.
        StaleAttempt: another agent holds the step, and the request has no result.
        InvalidTransition: the step is not in progress, or another review is open.
        InvalidInput: the result does not match the step's schema.
    """
    draft, step = Draft(plan, context), plan.step(step_id)
    review = Review(
        id=ReviewId(context.new_id()),
        step_id=step_id,
        summary=request.summary,
        questions=request.questions,
        result_summary=request.result_summary,
        requested_at=context.now,
        requested_by=context.actor.user,
        requested_as=context.actor.principal,
    )
    refusal = _request_refusal(plan, step, request.attempt, context.actor)
    if refusal is not None:
        is_repeated = plan.review is not None and plan.review.step_id == step_id
        if request.result_summary is None or is_repeated:
            raise refusal
        late = Submission(result_summary=request.result_summary, attempt=request.attempt)
        keep_late_result(draft, step, late, refusal)
        return draft.decide(review, refusal=refusal)
    if request.result_summary is not None:
        check_result(plan.texts[step_id].result_schema, request.result_summary)
    register_session(draft)
    resume_plan(draft)
    draft.move_step(step_id, StepStatus.AWAITING_INPUT)
    draft.assign_to_actor(step_id)
    draft.insert(Entity.REVIEW, review.id, review_row(review))
    draft.plan = draft.plan._replace(review=review)
    settle(draft)
    draft.record(
        Event.USER_REVIEWED,
        action="review_requested",
        reviewId=review.id,
        stepId=step_id,
        stepOrder=step.order,
    )
    return draft.decide(review)


def _request_refusal(plan: Plan, step: Step, attempt: int | None, actor: Actor) -> Refused | None:
    """Return why a step cannot be sent to review, or None if it can."""
    if plan.status in CLOSED_PLAN:
        return closed_plan_error(plan)
    if plan.status is PlanStatus.AWAITING_REVIEW:
        return InvalidTransition(
            "this plan already has an open review; only one can be open at a time",
            next_call=NextCall(
                "get_next_step",
                {"planId": plan.id, "another": True, "waitSeconds": MAX_WAIT_SECONDS},
                "Claim another step, or wait for the decision.",
            ),
            old=plan.status,
            new=PlanStatus.AWAITING_REVIEW,
        )
    if not is_current_attempt(attempt, step, actor):
        return stale_attempt(plan, step, attempt)
    if not can_move_step(step.status, StepStatus.AWAITING_INPUT):
        return InvalidTransition(
            f"step {step.order} is {step.status}: only a step in progress can be sent to review",
            old=step.status,
            new=StepStatus.AWAITING_INPUT,
            next_call=status_call(plan, "See which step is in progress."),
            stepId=step.id,
        )
    return None


def decide(
    plan: Plan,
    kind: DecisionKind,
    context: DecisionContext,
    *,
    feedback: str | None = None,
    step_id: StepId | None = None,
    review_id: str | None = None,
    place: ReviewSurface | None = None,
) -> Decision[StepDone]:
    """Apply a person's decision on the open review.

    Raises:
        NotAwaitingReview: no review is open, the open review is not the named one, or the review is
            already decided.
        PlanTerminal: the plan is closed.
        InvalidInput: the decision is `modify`, but has no feedback.
        Forbidden: the review requires a person other than the requester.
    """
    review = _review_to_decide(plan, step_id)
    if review_id not in {None, review.id}:
        raise NotAwaitingReview(
            "this review is already decided, and another one is open now; read that one first",
            next_call=status_call(plan, "See the open review."),
            reviewId=review.id,
        )
    asker, look = review.requested_as, status_call(plan, "See whether a person has decided.")
    require_decider(context, requested_as=asker, look=look)
    if kind is DecisionKind.MODIFY and not (feedback and feedback.strip()):
        raise InvalidInput(
            "the decision modify needs feedback: say what to change in the step",
            argument="feedback",
        )
    draft = Draft(plan, context)
    register_session(draft)
    actor = context.actor
    draft.set_review(
        review,
        decision=kind,
        feedback=feedback,
        decided_at=context.now,
        decided_by=actor.user,
        decided_via=actor.channel,
        decided_as=actor.principal,
    )
    return _carry_out(draft, review, kind, feedback, place)


def _carry_out(
    draft: Draft,
    review: Review,
    kind: DecisionKind,
    feedback: str | None,
    place: ReviewSurface | None,
) -> Decision[StepDone]:
    step_id = review.step_id
    details: dict[str, Json] = {
        "action": "decision",
        "decision": str(kind),
        "reviewId": review.id,
        "feedback": feedback,
        "decidedAs": draft.moment.actor.principal,
        **({"place": str(place)} if place else {}),
    }
    if kind is DecisionKind.APPROVE:
        values = {"result_summary": review.result_summary}
        return draft.decide(complete(draft, step_id, values, Event.USER_REVIEWED, **details))
    if kind is DecisionKind.SKIP:
        draft.move_step(step_id, StepStatus.SKIPPED)
    elif kind is DecisionKind.REJECT:
        reason = rejection_reason(draft.moment.actor.user) + (f": {feedback}" if feedback else "")
        draft.move_step(step_id, StepStatus.FAILED, fail_reason=reason)
        draft.set_plan(fail_reason=reason)
        draft.move_plan(PlanStatus.FAILED)
    else:
        _send_back(draft, step_id, feedback or "", place)
    settle(draft)
    step = draft.plan.step(step_id)
    draft.record(Event.USER_REVIEWED, stepId=step_id, stepOrder=step.order, **details)
    return draft.decide(StepDone(step))


def _send_back(draft: Draft, step_id: StepId, feedback: str, place: ReviewSurface | None) -> None:
    """Set the reviewed step back to in progress, with the feedback in its instructions.

    If the holder of the step relays the decision, the holder keeps the step. Otherwise, the step
    has no holder until an agent claims the step.
    """
    actor = draft.moment.actor
    instructions = draft.plan.texts[step_id].instructions
    draft.set_instructions(step_id, f"{instructions}\n\n---\n\nUser feedback: {feedback}")
    draft.move_step(step_id, StepStatus.IN_PROGRESS)
    step = draft.plan.step(step_id)
    is_holder = place is None and actor.holder.is_same_conversation(step.holder)
    relayed = is_holder or place is ReviewSurface.FORM
    draft.set_step(
        step_id,
        attempt=step.attempt + 1,
        held_by=actor.user if relayed else None,
        held_session=actor.session if relayed else None,
        silent_holders=None,
        answers_revision=None,
    )
    draft.set_plan(revision=draft.plan.revision + 1)


def _review_to_decide(plan: Plan, step_id: StepId | None) -> Review:
    last = plan.review if plan.review and step_id in {None, plan.review.step_id} else None
    if last and last.decision is not None:
        raise NotAwaitingReview(
            f"already decided: {last.decided_by} chose {last.decision}",
            next_call=NextCall("get_next_step", {"planId": plan.id}, "Claim the next step."),
            decision=str(last.decision),
            decidedBy=last.decided_by,
            decidedVia=str(last.decided_via),
            decidedAt=last.decided_at.isoformat() if last.decided_at else None,
            feedback=last.feedback,
        )
    require_open(plan)
    if last is None:
        raise NotAwaitingReview(
            "this plan has no open review, so there is nothing to decide",
            next_call=status_call(plan, "See which step, if any, is under review."),
            status=str(plan.status),
        )
    return last
