"""Updates the status of a plan after a change, records new sessions, and detects stalled steps."""

from datetime import timedelta

from waybook.core.changes import Entity, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft
from waybook.plan.model import (
    CLOSED_PLAN,
    Plan,
    PlanStatus,
    StepStatus,
    can_move_plan,
    derive_plan_status,
)
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD, newly_stalled, whole_minutes


def settle(draft: Draft) -> None:
    """Set the status of an open plan to the one that follows from its steps."""
    status, statuses = draft.plan.status, draft.plan.statuses()
    target = derive_plan_status(statuses)
    is_new = status is PlanStatus.PLANNING and {*statuses} <= {StepStatus.PENDING}
    is_stalled = status is PlanStatus.STALLED and target is PlanStatus.EXECUTING
    if status in CLOSED_PLAN or is_new or is_stalled:
        return
    draft.move_plan(*transition_path(status, target))


def transition_path(status: PlanStatus, target: PlanStatus) -> tuple[PlanStatus, ...]:
    """Return the statuses to set one after the other, so that every transition is allowed.

    >>> transition_path(PlanStatus.PLANNING, PlanStatus.COMPLETED)
    (<PlanStatus.EXECUTING: 'executing'>, <PlanStatus.COMPLETED: 'completed'>)
    """
    if status is target:
        return ()
    if can_move_plan(status, target):
        return (target,)
    return (PlanStatus.EXECUTING, target)


def is_new_session(plan: Plan, session: str | None) -> bool:
    return session is not None and session not in plan.sessions and plan.status not in CLOSED_PLAN


def register_session(draft: Draft) -> None:
    """Record the caller's session if it is new in this plan.

    The audit then says that the session resumed the plan, except if nothing has been done in the
    plan yet.
    """
    session = draft.moment.actor.session
    if session is None or not is_new_session(draft.plan, session):
        return
    has_history = draft.plan.seq > 1
    draft.insert(Entity.SESSION, session, {"seen_at": as_json(draft.moment.now)})
    draft.plan = draft.plan._replace(sessions=draft.plan.sessions | {session})
    if has_history:
        draft.record(Event.SESSION_RESUMED, sessionId=session)


def resume_session(plan: Plan, context: DecisionContext) -> Decision[None]:
    """Record the session of a call that only reads the plan."""
    draft = Draft(plan, context)
    if plan.seq > 1:
        register_session(draft)
    return draft.decide(None)


def detect_stall(
    plan: Plan, context: DecisionContext, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> Decision[bool]:
    """Set an executing plan to stalled if one of its steps has stalled."""
    draft = Draft(plan, context)
    stalled = newly_stalled(plan, now=context.now, patience=patience)
    if stalled:
        draft.move_plan(PlanStatus.STALLED)
        steps: list[Json] = [{"stepId": s.id, "minutes": whole_minutes(gap)} for s, gap in stalled]
        draft.record(Event.PLAN_MODIFIED, action="stall_detected", steps=steps)
    return draft.decide(bool(stalled))


def resume_plan(draft: Draft) -> None:
    """Resume a stalled plan, and restart the stall timers of its steps."""
    if draft.plan.status is PlanStatus.STALLED:
        draft.move_plan(PlanStatus.EXECUTING)
        draft.set_plan(resumed_at=draft.moment.now)
        draft.record(Event.PLAN_MODIFIED, action="resumed")
