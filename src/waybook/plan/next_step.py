"""Assignment of the next step to an agent, or the reason for not assigning one."""

from dataclasses import dataclass

from waybook.core.changes import Event
from waybook.core.decision_context import Actor, DecisionContext
from waybook.plan.draft import Decision, Draft
from waybook.plan.model import Plan, Step, StepText
from waybook.plan.progress import resume_plan
from waybook.plan.settle import register_session, settle
from waybook.plan.states import TERMINAL_STEP, PlanStatus, StepStatus


@dataclass(frozen=True, slots=True)
class StepReady:
    step: Step
    #: Texts of the step; None if the plan was loaded without texts.
    text: StepText | None
    resumed: bool


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
    #: Pending steps that wait because steps on which they depend are not finished.
    waiting: tuple[Step, ...] = ()


NextStep = StepReady | PlanComplete | PlanFailed | AwaitingReview | NothingPending


def next_step(plan: Plan, context: DecisionContext, *, another: bool = False) -> Decision[NextStep]:
    """Decide which step of the plan the caller should work on now.

    In this order: the step its session still holds (unless it asks for another), an unassigned step
    that a reviewer sent back, the first pending step without unfinished dependencies.
    """
    if plan.status is PlanStatus.COMPLETED:
        return Decision(PlanComplete(), plan)
    if plan.status is PlanStatus.FAILED:
        return Decision(PlanFailed(plan.fail_reason), plan)
    draft = Draft(plan, context)
    register_session(draft)
    if plan.status is PlanStatus.AWAITING_REVIEW:
        return draft.decide(AwaitingReview())
    resume_plan(draft)
    held = None if another else held_step(plan, context.actor)
    if held:
        draft.record_heartbeat(held.id)
        return draft.decide(StepReady(held, plan.texts.get(held.id), resumed=True))
    return _take(draft)


def _take(draft: Draft) -> Decision[NextStep]:
    sent_back = unclaimed_step(draft.plan)
    if sent_back:
        return _hand_out(draft, sent_back, resumed=True)
    pending = first_ready(draft.plan)
    if pending:
        draft.move_step(pending.id, StepStatus.IN_PROGRESS)
        return _hand_out(draft, pending, resumed=False)
    return draft.decide(
        NothingPending(
            tuple(draft.plan.steps_with_status(StepStatus.IN_PROGRESS)),
            tuple(draft.plan.steps_with_status(StepStatus.FAILED)),
            tuple(draft.plan.steps_with_status(StepStatus.PENDING)),
        )
    )


def held_step(plan: Plan, actor: Actor) -> Step | None:
    """Return the first step in progress that the caller holds in its current session."""
    me = actor.holder
    running = plan.steps_with_status(StepStatus.IN_PROGRESS)
    return next((step for step in running if me.is_same_conversation(step.holder)), None)


def unclaimed_step(plan: Plan) -> Step | None:
    """Return the first step in progress without a holder, which a reviewer sent back."""
    return next(
        (s for s in plan.steps_with_status(StepStatus.IN_PROGRESS) if s.held_by is None), None
    )


def _hand_out(draft: Draft, step: Step, *, resumed: bool) -> Decision[NextStep]:
    actor = draft.moment.actor
    draft.set_step(step.id, held_by=actor.user, held_session=actor.session)
    draft.record_heartbeat(step.id)
    settle(draft)
    draft.record(
        Event.STEP_STARTED,
        stepId=step.id,
        stepOrder=step.order,
        attempt=step.attempt,
        resumed=resumed,
    )
    plan = draft.plan
    return draft.decide(StepReady(plan.step(step.id), plan.texts.get(step.id), resumed))


def is_ready(plan: Plan, step: Step) -> bool:
    """Return whether all dependencies of this step are finished, even if skipped or failed."""
    return all(plan.step(before).status in TERMINAL_STEP for before in step.depends_on)


def first_ready(plan: Plan) -> Step | None:
    """Return the first pending step whose dependencies are all finished."""
    return next((s for s in plan.steps_with_status(StepStatus.PENDING) if is_ready(plan, s)), None)
