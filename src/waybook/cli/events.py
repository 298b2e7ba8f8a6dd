"""What happened, in words a person would use."""

from waybook.usecases.watch_plan import Happening

EVENTS = {
    "step_started": "took a step",
    "step_completed": "completed a step",
    "step_failed": "gave a step up",
    "plan_modified": "changed the plan",
    "session_resumed": "came back to the plan",
    "skill_started": "started a skill",
    "skill_completed": "completed a skill",
}
ACTIONS = {
    "created": "wrote the plan",
    "stall_detected": "noticed a stall",
    "resumed": "woke the plan up",
    "review_requested": "asked for a review",
    "decision": "decided a review",
    "add_steps": "added steps",
    "remove_step": "removed a step",
    "reorder_steps": "reordered the steps",
    "update_step_instructions": "rewrote a step",
    "fail_step": "gave a step up",
    "retry_step": "gave a step back to be retried",
}


def told_event(happening: Happening) -> str:
    """Who did what, as a sentence without its end."""
    return f"{happening.session or happening.actor} {deed(happening.event, happening.action)}"


def deed(event: str, action: str | None) -> str:
    """What was done.

    >>> deed("plan_modified", "stall_detected"), deed("step_started", None)
    ('noticed a stall', 'took a step')
    """
    return ACTIONS.get(action or "", EVENTS.get(event, event.replace("_", " ")))
