"""After every mutation: walk the stored status to the one the steps derive.

Where the table has no direct edge the walk goes over `executing`. Two stored statuses say more
than the steps can: `planning` while every step is pending, and `stalled` while work goes on.

Conversations: the first call of a new session on a plan with history is a resumption.

What a step took is written down once, with whatever was handed in, and added to its plan.
"""

from waybook.core.changes import Entity, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.core.usage import Usage
from waybook.json_values import Json
from waybook.plan.decision import Decision
from waybook.plan.draft import Draft
from waybook.plan.model import Plan, StepId
from waybook.plan.states import (
    CLOSED_PLAN,
    PlanStatus,
    StepStatus,
    can_move_plan,
    derive_plan_status,
)


def settle(draft: Draft) -> None:
    """Bring the plan's status to where its steps say it is. A closed plan stays as it is."""
    status, statuses = draft.plan.status, draft.plan.statuses()
    target = derive_plan_status(statuses)
    if status in CLOSED_PLAN or _says_more(status, target, statuses):
        return
    draft.move_plan(*transition_path(status, target))


def transition_path(status: PlanStatus, target: PlanStatus) -> tuple[PlanStatus, ...]:
    """The documented edges from one status to another.

    >>> transition_path(PlanStatus.PLANNING, PlanStatus.COMPLETED)
    (<PlanStatus.EXECUTING: 'executing'>, <PlanStatus.COMPLETED: 'completed'>)
    """
    if status is target:
        return ()
    if can_move_plan(status, target):
        return (target,)
    return (PlanStatus.EXECUTING, target)


def is_derivable(status: PlanStatus, statuses: list[StepStatus]) -> bool:
    """Whether a stored status is one these steps allow."""
    target = derive_plan_status(statuses)
    return status in {target, PlanStatus.FAILED} or _says_more(status, target, statuses)


def _says_more(status: PlanStatus, target: PlanStatus, statuses: list[StepStatus]) -> bool:
    if status is PlanStatus.PLANNING:
        return all(step is StepStatus.PENDING for step in statuses)
    return status is PlanStatus.STALLED and target is PlanStatus.EXECUTING


def is_new_session(plan: Plan, session: str | None) -> bool:
    """Whether this plan meets this session for the first time and can still note it."""
    return session is not None and session not in plan.sessions and plan.status not in CLOSED_PLAN


def register_session(draft: Draft) -> None:
    """Note the session that asks, once per plan.

    Creation alone is no history: whoever takes the first step of a fresh plan resumes nothing, and
    is noted along with that step.
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
    """Note the session that reads up on the plan, if it is new and there is history."""
    draft = Draft(plan, context)
    if plan.seq > 1:
        register_session(draft)
    return draft.decide(None)


def record_usage(draft: Draft, step_id: StepId, attempt: int, usage: Usage | None) -> None:
    """Keep what an attempt at a step took. A late result counts too: its tokens were spent."""
    if usage is None:
        return
    row: dict[str, Json] = {
        "step_id": step_id,
        "attempt": attempt,
        **usage.as_row(),
        "at": as_json(draft.moment.now),
        "by": draft.moment.actor.user,
    }
    draft.insert(Entity.USAGE, draft.moment.new_id(), row)
    draft.set_usage(draft.plan.usage.plus(usage))
