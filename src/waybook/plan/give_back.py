"""Gives a step back, so that another agent can claim it at once."""

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext, is_current_attempt
from waybook.json_values import Json
from waybook.plan.draft import (
    Decision,
    Draft,
    register_session,
    require_open,
    resume_plan,
    settle,
)
from waybook.plan.model import Plan, Step, StepId, StepStatus
from waybook.plan.submit import stale_attempt


def give_back(
    plan: Plan,
    step_id: StepId,
    context: DecisionContext,
    *,
    attempt: int | None,
    details: dict[str, Json],
) -> Decision[Step]:
    """Make a step in progress pending. It does not count as a silent holder or a failure.

    Raises:
        PlanTerminal: the plan is closed.
        StaleAttempt: the caller does not hold the step.
    """
    require_open(plan)
    step = plan.step(step_id)
    is_held = step.status is StepStatus.IN_PROGRESS and step.held_by is not None
    if not is_held or not is_current_attempt(attempt, step, context.actor):
        raise stale_attempt(plan, step, attempt)
    draft = Draft(plan, context)
    register_session(draft)
    resume_plan(draft)
    draft.move_step(step_id, StepStatus.FAILED)
    # The next holder gets a new attempt, so that a late result of this one is refused.
    draft.move_step(
        step_id,
        StepStatus.PENDING,
        attempt=step.attempt + 1,
        held_by=None,
        held_session=None,
        in_progress_since=None,
        answers_revision=None,
    )
    settle(draft)
    returned = draft.plan.step(step_id)
    draft.record_step(Event.PLAN_MODIFIED, returned, action="give_back", **details)
    return draft.decide(returned)
