"""Assigns the next step to an agent, or says why no step is available."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from waybook.core.changes import Entry, Event
from waybook.core.decision_context import Actor, DecisionContext
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft
from waybook.plan.model import DEFAULT_MAX_ATTEMPTS, Plan, PlanStatus, Step, StepStatus, StepText
from waybook.plan.ordering import first_ready
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD, detect_stalled_steps, whole_minutes
from waybook.plan.settle import register_session, resume_plan, settle


@dataclass(frozen=True, slots=True)
class StepReady:
    step: Step
    text: StepText | None
    resumed: bool
    #: Holder who stopped responding and lost the step. None if the step was free.
    replaced: "ReplacedHolder | None" = None


@dataclass(frozen=True, slots=True)
class ReplacedHolder:
    user: str
    session: str | None
    attempt: int
    minutes: int


@dataclass(frozen=True, slots=True)
class PlanComplete:
    pass


@dataclass(frozen=True, slots=True)
class PlanFailed:
    reason: str | None


@dataclass(frozen=True, slots=True)
class AwaitingReview:
    pass


@dataclass(frozen=True, slots=True)
class NothingPending:
    in_progress: tuple[Step, ...]
    failed: tuple[Step, ...]
    waiting: tuple[Step, ...] = ()


NextStep = StepReady | PlanComplete | PlanFailed | AwaitingReview | NothingPending


def next_step(
    plan: Plan,
    context: DecisionContext,
    *,
    another: bool = False,
    patience: timedelta = DEFAULT_STALL_THRESHOLD,
) -> Decision[NextStep]:
    """Assign the next step to the caller, or reply why no step is available.

    The caller gets the first of these that exists: the step that its session holds, a step that a
    reviewer sent back, a pending step without unfinished dependencies, or a step whose holder sent
    no heartbeat for `patience`.
    """
    draft = Draft(plan, context)
    return draft.decide(take_step(draft, another=another, patience=patience))


def take_step(draft: Draft, *, another: bool = False, patience: timedelta) -> NextStep:
    """Assign the next step to the caller. The docstring of `next_step` describes the order."""
    plan = draft.plan
    if plan.status is PlanStatus.COMPLETED:
        return PlanComplete()
    if plan.status is PlanStatus.FAILED:
        return PlanFailed(plan.fail_reason)
    register_session(draft)
    if is_paused(plan):
        return AwaitingReview()
    resume_plan(draft)
    held = None if another else held_step(plan, draft.moment.actor)
    if held:
        if held.answers_revision is not None:
            return _hand_out(draft, held, resumed=True)
        draft.record_heartbeat(held.id)
        return StepReady(held, plan.texts.get(held.id), resumed=True)
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
            draft.move_step(pending.id, StepStatus.IN_PROGRESS, **_assigned(draft))
            return _record_start(draft, pending, resumed=False)
        stalled = detect_stalled_steps(plan, now=draft.moment.now, patience=patience)
        silent = [item for item in stalled if not me.is_same_conversation(item[0].holder)]
        if not silent:
            if plan.status is PlanStatus.AWAITING_REVIEW:
                return AwaitingReview()
            statuses = (StepStatus.FAILED, StepStatus.PENDING)
            failed, waiting = (tuple(plan.steps_with_status(status)) for status in statuses)
            return NothingPending(tuple(running), failed, waiting)
        step, gap = silent[0]
        if (step.silent_holders or 0) + 1 < (step.max_attempts or DEFAULT_MAX_ATTEMPTS):
            return _take_over(draft, step, gap)
        _give_up(draft, step, gap)
        if draft.plan.status is PlanStatus.COMPLETED:
            return PlanComplete()


def _take_over(draft: Draft, step: Step, gap: timedelta) -> NextStep:
    replaced = ReplacedHolder(
        step.held_by or "", step.held_session, step.attempt, whole_minutes(gap)
    )
    draft.set_step(
        step.id,
        attempt=step.attempt + 1,
        silent_holders=(step.silent_holders or 0) + 1,
        in_progress_since=draft.moment.now,
    )
    return _hand_out(draft, draft.plan.step(step.id), resumed=True, replaced=replaced)


def _give_up(draft: Draft, step: Step, gap: timedelta) -> None:
    count = (step.silent_holders or 0) + 1
    reason = f"{count} holders stopped responding, the last for {whole_minutes(gap)} minutes"
    draft.move_step(step.id, StepStatus.FAILED, fail_reason=reason, silent_holders=count)
    settle(draft)
    draft.record(
        Event.STEP_FAILED,
        stepId=step.id,
        stepOrder=step.order,
        attempt=step.attempt,
        reason=reason,
        reclaimedFrom=step.held_by,
    )


def replaces_silent_holder(entries: Iterable[Entry]) -> bool:
    return any(entry.details.get("reclaimedFrom") is not None for entry in entries)


def held_step(plan: Plan, actor: Actor) -> Step | None:
    me = actor.holder
    running = plan.steps_with_status(StepStatus.IN_PROGRESS)
    return next((step for step in running if me.is_same_conversation(step.holder)), None)


def _assigned(draft: Draft) -> dict[str, object]:
    actor = draft.moment.actor
    return {"held_by": actor.user, "held_session": actor.session, "answers_revision": None}


def _hand_out(
    draft: Draft, step: Step, *, resumed: bool, replaced: ReplacedHolder | None = None
) -> NextStep:
    draft.set_step(step.id, **_assigned(draft))
    return _record_start(draft, step, resumed=resumed, replaced=replaced)


def _record_start(
    draft: Draft, step: Step, *, resumed: bool, replaced: ReplacedHolder | None = None
) -> NextStep:
    draft.record_heartbeat(step.id)
    settle(draft)
    details: dict[str, Json] = {}
    if replaced is not None:
        details = {
            "action": "taken_over",
            "reclaimedFrom": replaced.user,
            "silentMinutes": replaced.minutes,
        }
    draft.record(
        Event.STEP_STARTED,
        stepId=step.id,
        stepOrder=step.order,
        attempt=step.attempt,
        resumed=resumed,
        **details,
    )
    plan = draft.plan
    return StepReady(plan.step(step.id), plan.texts.get(step.id), resumed, replaced)
