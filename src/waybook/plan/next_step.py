"""Assigns the next step to an agent, or says why no step is available."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from waybook.core.changes import Entry, Event
from waybook.core.decision_context import Actor, DecisionContext
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft, register_session, resume_plan, settle
from waybook.plan.model import (
    CLOSED_PLAN,
    DEFAULT_MAX_ATTEMPTS,
    Plan,
    PlanStatus,
    Step,
    StepStatus,
)
from waybook.plan.ordering import first_ready
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD, detect_stalled_steps, whole_minutes


@dataclass(frozen=True, slots=True)
class StepReady:
    step: Step
    resumed: bool
    #: Set if the previous holder stopped responding: the step as it was with that holder, and the
    #: time since the last heartbeat.
    taken_over: tuple[Step, timedelta] | None = None


#: The assigned step, or the status of the plan, which says why no step is available.
NextStep: TypeAlias = StepReady | PlanStatus


def next_step(
    plan: Plan,
    context: DecisionContext,
    *,
    another: bool = False,
    patience: timedelta = DEFAULT_STALL_THRESHOLD,
) -> Decision[NextStep]:
    """Assign the next step to the caller, or reply why no step is available.

    The caller gets the first of these that exists: the step that its session holds, a step that a
    reviewer sent back, a pending step without unfinished dependencies, or a stalled step.
    `patience` is the time without a heartbeat after which a step is stalled by default.
    """
    draft = Draft(plan, context)
    return draft.decide(take_step(draft, another=another, patience=patience))


def take_step(draft: Draft, *, another: bool = False, patience: timedelta) -> NextStep:
    """Assign the next step to the caller. The docstring of `next_step` describes the order."""
    plan = draft.plan
    if plan.status in CLOSED_PLAN:
        return plan.status
    register_session(draft)
    if is_paused(plan):
        return plan.status
    resume_plan(draft)
    held = None if another else held_step(plan, draft.moment.actor)
    if held:
        if held.answers_revision is not None:
            return _hand_out(draft, held, resumed=True)
        draft.record_heartbeat(held.id)
        return StepReady(held, resumed=True)
    return _take(draft, patience)


def is_paused(plan: Plan) -> bool:
    """Return whether an open review pauses the whole plan.

    In a plan with dependencies, a review pauses only the steps that depend on the reviewed step.
    """
    return plan.status is PlanStatus.AWAITING_REVIEW and not plan.has_dependencies()


def _take(draft: Draft, patience: timedelta) -> NextStep:
    me = draft.moment.actor.holder
    while True:
        plan = draft.plan
        running = [*plan.steps_with_status(StepStatus.IN_PROGRESS)]
        for step in running:
            if step.held_by is None:  # A reviewer sent the step back.
                return _hand_out(draft, step, resumed=True)
        pending = first_ready(plan)
        if pending:
            return _hand_out(draft, pending, resumed=False)
        stalled = detect_stalled_steps(plan, now=draft.moment.now, patience=patience)
        silent = [item for item in stalled if not me.is_same_conversation(item[0].holder)]
        if not silent:
            return plan.status
        step, gap = silent[0]
        count = (step.silent_holders or 0) + 1
        if count < (step.max_attempts or DEFAULT_MAX_ATTEMPTS):
            return _hand_out(
                draft,
                step,
                resumed=True,
                taken_over=(step, gap),
                attempt=step.attempt + 1,
                silent_holders=count,
                in_progress_since=draft.moment.now,
            )
        reason = f"{count} holders stopped responding, the last for {whole_minutes(gap)} minutes"
        draft.move_step(step.id, StepStatus.FAILED, fail_reason=reason, silent_holders=count)
        settle(draft)
        draft.record_step(Event.STEP_FAILED, step, reason=reason, reclaimedFrom=step.held_by)
        if draft.plan.status is PlanStatus.COMPLETED:
            return draft.plan.status


def replaces_silent_holder(entries: Iterable[Entry]) -> bool:
    return any(entry.details.get("reclaimedFrom") is not None for entry in entries)


def held_step(plan: Plan, actor: Actor) -> Step | None:
    me = actor.holder
    running = plan.steps_with_status(StepStatus.IN_PROGRESS)
    return next((step for step in running if me.is_same_conversation(step.holder)), None)


def _hand_out(
    draft: Draft,
    step: Step,
    *,
    resumed: bool,
    taken_over: tuple[Step, timedelta] | None = None,
    **values: object,
) -> NextStep:
    """Make the caller the holder of a step, and record that the step has started."""
    actor = draft.moment.actor
    holder = {"held_by": actor.user, "held_session": actor.session, "answers_revision": None}
    if step.status is StepStatus.PENDING:
        draft.move_step(step.id, StepStatus.IN_PROGRESS, **holder)
    else:
        draft.set_step(step.id, **values, **holder)
    draft.record_heartbeat(step.id)
    settle(draft)
    step, details = draft.plan.step(step.id), dict[str, Json]()
    if taken_over is not None:
        before, gap = taken_over
        minutes = whole_minutes(gap)
        details = {
            "action": "taken_over",
            "reclaimedFrom": before.held_by,
            "silentMinutes": minutes,
        }
    draft.record_step(Event.STEP_STARTED, step, resumed=resumed, **details)
    return StepReady(step, resumed, taken_over)
