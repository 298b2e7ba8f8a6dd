"""Submits a result: completes the step, evaluates its conditions, and updates the plan."""

from dataclasses import dataclass, replace
from datetime import timedelta

from waybook.core.changes import Entity, Event, as_json
from waybook.core.decision_context import (
    DecisionContext,
    ReviewPolicy,
    is_current_attempt,
    is_repeated_result,
)
from waybook.core.usage import Usage
from waybook.errors import InvalidInput, InvalidTransition, NextCall, Refused, StaleAttempt
from waybook.json_values import Json
from waybook.plan.branching import Branch, evaluate_conditions
from waybook.plan.draft import (
    Decision,
    Draft,
    closed_plan_error,
    register_session,
    resume_plan,
    settle,
    status_call,
)
from waybook.plan.model import (
    CLOSED_PLAN,
    BranchOutcome,
    Plan,
    Step,
    StepId,
    StepStatus,
    StepType,
)
from waybook.plan.next_step import NextStep, take_step
from waybook.plan.schema import check_result, result_errors, summarize_errors

_MAX_SOURCES_NAMED = 20


def _check_result_evidence(plan: Plan, step_id: StepId, result: Json) -> None:
    """Check that a result matches the step's JSON Schema and that the step has enough sources.

    Raises:
        InvalidInput: the result violates the schema or sources are missing; the error lists all
            violations.
        TooLarge: checking the result would take too long.
    """
    text = plan.texts[step_id]
    lacking = (text.required_sources or 0) - len(text.sources)
    if lacking <= 0:
        check_result(text.result_schema, result)
        return
    faults, stored = result_errors(text.result_schema, result), len(text.sources)
    wanting = (
        f"this step needs {text.required_sources} sources, but only {stored} are stored for it: "
        "store the sources of your result, then submit again"
    )
    missing: dict[str, Json] = {"missing": [*faults], "resultSchema": text.result_schema}
    raise InvalidInput(
        f"{summarize_errors(faults)}; {wanting}" if faults else wanting,
        next_call=NextCall(
            "store_research",
            {"planId": plan.id, "stepId": step_id},
            "Store research for this step with its sources.",
        ),
        sources={
            "required": text.required_sources,
            "stored": stored,
            "missing": lacking,
            "counted": [
                {"sourceId": source.id, "title": source.title, "url": source.url}
                for source in text.sources[:_MAX_SOURCES_NAMED]
            ],
        },
        **(missing if faults else {}),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    result_summary: Json
    confidence: float | None = None
    report: Json = None
    formatting_notes: str | None = None
    usage: Usage | None = None
    #: Attempt that the caller claimed. If it is missing and the step has a holder, only the holder
    #: can complete the step.
    attempt: int | None = None

    def values(self) -> dict[str, Json]:
        return {
            "result_summary": self.result_summary,
            "confidence": self.confidence,
            "report": self.report,
            "formatting_notes": self.formatting_notes,
        }


@dataclass(frozen=True, slots=True)
class StepDone:
    step: Step
    branches: tuple[Branch, ...] = ()
    following: NextStep | None = None


def submit(
    plan: Plan,
    step_id: StepId,
    submission: Submission,
    context: DecisionContext,
    patience: timedelta | None = None,
) -> Decision[StepDone]:
    """Complete a step with its result, or refuse the result and store it as a late result.

    With `patience`, also claim the caller's next step, as `next_step` does.

    Raises:
        PlanTerminal: the plan is closed, and the caller has completed the step already.
        InvalidTransition: the caller has completed the step already, or the step is in review.
        InvalidInput: the result does not match the step's schema, or has too few sources.
    """
    draft, step = Draft(plan, context), plan.step(step_id)
    refusal = _refusal(draft, step, submission)
    if refusal is not None:
        keep_late_result(draft, step, submission, refusal)
        return draft.decide(StepDone(step), refusal=refusal)
    done = _accept(draft, step, submission)
    if patience is not None:
        done = replace(done, following=take_step(draft, patience=patience))
    return draft.decide(done)


def _accept(draft: Draft, step: Step, submission: Submission) -> StepDone:
    plan, step_id = draft.plan, step.id
    if step.type is StepType.CHECKPOINT and draft.moment.policy is ReviewPolicy.HUMAN:
        why = "Ask a person; the step completes when they approve it."
        raise InvalidTransition(
            f"step {step.order} is a checkpoint: in this org only an approved review completes it",
            old=step.status,
            new=StepStatus.COMPLETED,
            next_call=NextCall("request_user_review", {"stepId": step.id}, why),
            stepId=step.id,
        )
    _check_result_evidence(plan, step_id, submission.result_summary)
    register_session(draft)
    resume_plan(draft)
    if step.status is StepStatus.PENDING:
        draft.move_step(step_id, StepStatus.IN_PROGRESS)
    draft.assign_to_actor(step_id)
    draft.record_usage(step_id, step.attempt, submission.usage)
    return complete(draft, step_id, submission.values())


def _refusal(draft: Draft, step: Step, submission: Submission) -> Refused | None:
    """Return why a result is refused, or None if the step may accept it.

    Raises:
        PlanTerminal, InvalidTransition: the caller has completed the step already.
    """
    plan, actor, attempt = draft.plan, draft.moment.actor, submission.attempt
    refusal: Refused
    if plan.status in CLOSED_PLAN:
        refusal = closed_plan_error(plan)
    elif not is_current_attempt(attempt, step, actor):
        refusal = stale_attempt(plan, step, attempt)
    elif step.status in {StepStatus.PENDING, StepStatus.IN_PROGRESS}:
        return None
    else:
        refusal = InvalidTransition(
            f"step {step.order} is {step.status}: only a step in progress accepts a result",
            old=step.status,
            new=StepStatus.COMPLETED,
            next_call=status_call(plan, "See the status of the plan; a result counts once."),
            stepId=step.id,
            attempt=step.attempt,
        )
    if step.status is StepStatus.COMPLETED and is_repeated_result(attempt, step, actor):
        raise refusal
    return refusal


def complete(
    draft: Draft,
    step_id: StepId,
    values: dict[str, Json],
    event: Event = Event.STEP_COMPLETED,
    **details: Json,
) -> StepDone:
    """Complete the step, apply its conditions, and update the plan, in one audit entry."""
    draft.move_step(step_id, StepStatus.COMPLETED)
    draft.set_result(step_id, **values)
    step = draft.plan.step(step_id)
    branches = tuple(evaluate_conditions(draft, step_id, values))
    settle(draft)
    if step.answers_revision is not None:
        details["answersRevision"] = step.answers_revision
    if branches:
        details["branches"] = [branch.as_json() for branch in branches]
    draft.record_step(event, step, **details)
    return StepDone(draft.plan.step(step_id), branches)


def fired_branches(branches: tuple[Branch, ...]) -> list[Branch]:
    return [looked_at for looked_at in branches if looked_at.outcome is BranchOutcome.FIRED]


def keep_late_result(draft: Draft, step: Step, submission: Submission, refusal: Refused) -> None:
    """Store a refused result as an artifact, and name the artifact in the refusal."""
    context, attempt = draft.moment, submission.attempt
    register_session(draft)
    artifact_id = context.new_uuid()
    content: Json = submission.values()
    of_attempt = "" if attempt is None else f", attempt {attempt}"
    row: dict[str, Json] = {
        "step_id": step.id,
        "kind": "late_result",
        "title": f"Late result of step {step.order}{of_attempt}",
        "content": content,
        "superseded": True,
        "created_at": as_json(context.now),
        "created_by": context.actor.user,
    }
    draft.insert(Entity.ARTIFACT, artifact_id, row)
    draft.record_usage(step.id, attempt or 0, submission.usage)
    draft.record(
        Event.PLAN_MODIFIED,
        action="late_result_kept",
        stepId=step.id,
        artifactId=artifact_id,
        attempt=attempt,
        currentAttempt=step.attempt,
    )
    refusal.message += ". Your result was not counted but is stored as an artifact of the step"
    refusal.details |= {"stepId": step.id, "artifactId": artifact_id}


def stale_attempt(plan: Plan, step: Step, attempt: int | None) -> StaleAttempt:
    again = "Get your step again, with its current attempt."
    if attempt is None:
        why = (
            f"step {step.order} is at attempt {step.attempt}, held by another agent; without "
            "`attempt`, only its holder can submit it"
        )
    elif not 1 <= attempt <= step.attempt:
        why = (
            f"attempt {attempt} of step {step.order} does not exist: the step is at attempt "
            f"{step.attempt}, {step.status}"
        )
    else:
        again = "Claim another step; do not resubmit."
        why = (
            f"attempt {attempt} of step {step.order} is over: the step is at attempt "
            f"{step.attempt}; it was reset or taken over"
        )
    return StaleAttempt(
        why,
        next_call=NextCall("get_next_step", {"planId": plan.id}, again),
        attempt=attempt,
        currentAttempt=step.attempt,
        stepStatus=str(step.status),
    )
