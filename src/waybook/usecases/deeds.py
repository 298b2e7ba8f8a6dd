"""What was done, in words a person would use, for every face."""

from waybook.usecases.verify_audit import RUN

EVENT_LABELS = {
    "step_started": "took a step",
    "step_completed": "completed a step",
    "step_failed": "gave a step up",
    "plan_modified": "changed the plan",
    "session_resumed": "came back to the plan",
    "skill_started": "started a skill",
    "skill_completed": "completed a skill",
}
#: The same of a run, where that is another word.
RUN_EVENT_LABELS = {
    "step_started": "took a job",
    "step_completed": "completed a job",
    "step_failed": "gave a job back",
    "plan_modified": "changed the run",
}
ACTION_LABELS = {
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
    "research_stored": "stored research",
    "run_started": "started the run",
    "stage_started": "started a stage",
    "stage_feedback": "gave feedback on a stage",
    "retry_failed": "gave what failed a fresh start",
    "regenerate": "asked for a document to be written anew",
    "rendered": "rendered documents",
    "late_result": "came back too late",
    "org_recorded": "began to note what becomes of the org",
    "org_changed": "changed the org",
    "user_added": "let a user in",
    "user_scopes_changed": "changed what a user may do",
    "user_disabled": "disabled a user",
    "user_enabled": "enabled a user",
    "user_erased": "erased a user",
    "token_added": "made a token",
    "token_revoked": "revoked a token",
}


def event_label(event: str, action: str | None, subject: str = "plan") -> str:
    """What was done.

    >>> event_label("plan_modified", "stall_detected"), event_label("step_started", None)
    ('noticed a stall', 'took a step')
    >>> event_label("step_started", None, "run")
    'took a job'
    """
    words = {**EVENT_LABELS, **RUN_EVENT_LABELS} if subject == RUN else EVENT_LABELS
    return ACTION_LABELS.get(action or "", words.get(event, event.replace("_", " ")))
