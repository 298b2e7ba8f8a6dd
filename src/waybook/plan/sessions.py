"""Conversations: the first call of a new session on a plan with history is a resumption."""

from waybook.plan.decision import Decision
from waybook.plan.draft import Draft
from waybook.plan.model import Plan
from waybook.plan.states import CLOSED_PLAN
from waybook.record.changes import Entity, Event, as_json
from waybook.record.moment import DecisionContext


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
