"""Stalls: a step in progress with no heartbeat for longer than its threshold."""

from datetime import datetime, timedelta

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext
from waybook.json_values import Json
from waybook.plan.decision import Decision
from waybook.plan.draft import Draft
from waybook.plan.model import Plan, Step
from waybook.plan.states import PlanStatus, StepStatus

#: Stall threshold if neither the step nor the plan sets one.
DEFAULT_STALL_THRESHOLD = timedelta(minutes=30)


def stall_threshold(
    plan: Plan, step: Step, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> timedelta:
    """Return the stall threshold of this step: its own, else the plan's, else the server's."""
    seconds = step.stall_seconds if step.stall_seconds is not None else plan.stall_seconds
    return patience if seconds is None else timedelta(seconds=seconds)


def last_heartbeat(step: Step) -> datetime | None:
    """Return the time of the step's last heartbeat, or None if it is not in progress."""
    if step.status is not StepStatus.IN_PROGRESS or step.in_progress_since is None:
        return None
    return max(step.in_progress_since, step.last_seen_at or step.in_progress_since)


def stalled_steps(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> tuple[tuple[Step, timedelta], ...]:
    """Return the steps inactive for longer than their threshold, in plan order, with the gap."""
    silent = (
        (step, now - seen) for step in plan.steps if (seen := last_heartbeat(step)) is not None
    )
    return tuple((step, gap) for step, gap in silent if gap > stall_threshold(plan, step, patience))


def newly_stalled(
    plan: Plan, *, now: datetime, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> tuple[tuple[Step, timedelta], ...]:
    """Return the steps that stall an executing plan; resuming it restarted their clock."""
    if plan.status is not PlanStatus.EXECUTING:
        return ()
    resumed = plan.resumed_at
    return tuple(
        (step, gap)
        for step, gap in stalled_steps(plan, now=now, patience=patience)
        if resumed is None or now - resumed > stall_threshold(plan, step, patience)
    )


def detect_stall(
    plan: Plan, context: DecisionContext, patience: timedelta = DEFAULT_STALL_THRESHOLD
) -> Decision[bool]:
    """Move an executing plan with a stalled step to stalled. Replies whether it did."""
    draft = Draft(plan, context)
    stalled = newly_stalled(plan, now=context.now, patience=patience)
    if stalled:
        draft.move_plan(PlanStatus.STALLED)
        steps: list[Json] = [{"stepId": s.id, "minutes": whole_minutes(gap)} for s, gap in stalled]
        draft.record(Event.PLAN_MODIFIED, action="stall_detected", steps=steps)
    return draft.decide(bool(stalled))


def resume_plan(draft: Draft) -> None:
    """Resume a stalled plan and restart its clock; any other plan is unchanged."""
    if draft.plan.status is PlanStatus.STALLED:
        draft.move_plan(PlanStatus.EXECUTING)
        draft.set_plan(resumed_at=draft.moment.now)
        draft.record(Event.PLAN_MODIFIED, action="resumed")


def whole_minutes(gap: timedelta) -> int:
    """Return a gap in minutes, rounded down.

    >>> whole_minutes(timedelta(minutes=31, seconds=59))
    31
    """
    return int(gap.total_seconds() // 60)
