"""Applies a list of changes to a plan's steps: all of them or none."""

from dataclasses import dataclass

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext
from waybook.errors import (
    InvalidInput,
    InvalidStepReference,
    InvalidTransition,
    NotModifiable,
    PlanTerminal,
    Refused,
    StalePlan,
)
from waybook.json_values import Json
from waybook.plan.draft import Decision, Draft, require_open, status_call, wait_call
from waybook.plan.model import (
    DONE_STEP,
    MODIFIABLE,
    Budget,
    NewCondition,
    NewStep,
    Plan,
    PlanStatus,
    Step,
    StepId,
    StepStatus,
)
from waybook.plan.new_conditions import check_size
from waybook.plan.ordering import changed_dependencies, insertion_point, named_steps, validate_order
from waybook.plan.schema import check_new_steps
from waybook.plan.settle import register_session, resume_plan, settle
from waybook.plan.submit import stale_attempt


@dataclass(frozen=True, slots=True)
class SetTitle:
    step_id: StepId
    title: str | None


@dataclass(frozen=True, slots=True)
class SetDependencies:
    step_id: StepId
    depends_on: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SetBudget:
    budget: Budget | None


@dataclass(frozen=True, slots=True)
class AddSteps:
    steps: tuple[NewStep, ...]
    after: int | None = None


@dataclass(frozen=True, slots=True)
class RemoveStep:
    step_id: StepId


@dataclass(frozen=True, slots=True)
class ReorderSteps:
    step_ids: tuple[StepId, ...]


@dataclass(frozen=True, slots=True)
class UpdateInstructions:
    step_id: StepId
    instructions: str


@dataclass(frozen=True, slots=True)
class FailStep:
    step_id: StepId
    reason: str
    retry: bool = False
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class RetryStep:
    step_id: StepId


@dataclass(frozen=True, slots=True)
class SetConditions:
    step_id: StepId
    conditions: tuple[NewCondition, ...]


@dataclass(frozen=True, slots=True)
class CancelPlan:
    reason: str


_PendingEdit = SetTitle | SetDependencies | SetConditions
StepModification = RemoveStep | UpdateInstructions | FailStep | RetryStep | _PendingEdit
Modification = AddSteps | ReorderSteps | CancelPlan | SetBudget | StepModification


def modify(
    plan: Plan,
    modifications: tuple[Modification, ...],
    context: DecisionContext,
    *,
    rationale: str | None = None,
    expected_revision: int | None = None,
) -> Decision[Plan]:
    """Apply a list of modifications to a plan in order: all of them, or none.

    Raises:
        PlanTerminal: the plan is closed, or a modification in the list follows one that cancels
            the plan.
        NotModifiable: the plan waits for a review, or the modifications would remove all its steps.
        StalePlan: the plan is not at the revision the caller saw.
        InvalidStepReference: a named step does not exist.
        InvalidTransition: a step is not in a status that allows the change.
        StaleAttempt: a modification would fail a step that is no longer at the named attempt.
        InvalidInput: the list is empty, or a new step is malformed.
    """
    is_canceled = any(isinstance(m, CancelPlan) for m in modifications)
    if any(isinstance(m, CancelPlan) for m in modifications[:-1]):
        raise PlanTerminal(
            "cancel_plan ends the plan, so it must be the last modification",
            next_call=status_call(plan, "See the plan, then repeat the call in another order."),
        )
    _refuse_unmodifiable(plan, expected_revision, is_canceled=is_canceled)
    if not modifications:
        raise InvalidInput("modify_plan needs at least one modification", argument="modifications")
    steps = [new for m in modifications if isinstance(m, AddSteps) for new in m.steps]
    changed = [m for m in modifications if isinstance(m, SetConditions)]
    replaced = {m.step_id for m in changed}
    existing = sum(c.step_id not in replaced for c in plan.pending_conditions())
    check_new_steps(steps, [c for m in changed for c in m.conditions], existing=existing)
    draft = Draft(plan, context)
    register_session(draft)
    resume_plan(draft)
    last = len(modifications) - 1
    for number, modification in enumerate(modifications):
        details = _apply(draft, modification)
        draft.set_plan(revision=draft.plan.revision + 1)
        if number == last:
            settle(draft)
        draft.record(Event.PLAN_MODIFIED, **details, rationale=rationale)
    return draft.decide(draft.plan)


def _refuse_unmodifiable(plan: Plan, expected_revision: int | None, *, is_canceled: bool) -> None:
    require_open(plan)
    if plan.status not in MODIFIABLE and not is_canceled:
        raise NotModifiable(
            f"this plan is {plan.status}: it cannot be modified before a person decides",
            next_call=wait_call(plan, "Wait for the decision, then modify the plan."),
            status=str(plan.status),
        )
    if expected_revision is not None and expected_revision != plan.revision:
        raise StalePlan(
            f"the plan is at revision {plan.revision}, but you expected {expected_revision}",
            next_call=status_call(plan, "Read the current plan, then modify it again."),
            revision=plan.revision,
            expectedRevision=expected_revision,
        )


def _apply(draft: Draft, modification: Modification) -> dict[str, Json]:
    match modification:
        case AddSteps():
            return _add(draft, modification)
        case ReorderSteps(step_ids):
            draft.reorder(validate_order(draft.plan, list(step_ids)))
            return {"action": "reorder_steps", "stepIds": list(step_ids)}
        case SetBudget(budget):
            draft.set_budget(budget)
            return {"action": "set_budget", "budget": budget.as_json() if budget else None}
        case CancelPlan(reason):
            draft.set_plan(fail_reason=reason, canceled=True)
            draft.move_plan(PlanStatus.FAILED)
            return {"action": "cancel_plan", "reason": reason}
        case _:
            step = next((s for s in draft.plan.steps if s.id == modification.step_id), None)
            if step is None:
                raise InvalidStepReference(
                    "there is no such step in this plan",
                    next_call=status_call(draft.plan, "See the plan's steps and their ids."),
                    stepId=modification.step_id,
                )
            return _apply_to_step(draft, modification, step)


def _apply_to_step(draft: Draft, modification: StepModification, step: Step) -> dict[str, Json]:
    match modification:
        case RemoveStep():
            return _remove(draft, step)
        case UpdateInstructions(_, instructions):
            is_new = draft.plan.texts[step.id].instructions != instructions
            is_mine = draft.moment.actor.holder.is_same_conversation(step.holder)
            if is_new and step.holder and not is_mine and step.answers_revision is None:
                # The holder still has the old instructions, so record the revision that they belong
                # to.
                draft.set_step(step.id, answers_revision=draft.plan.revision)
            draft.set_instructions(step.id, instructions)
            draft.record_heartbeat(step.id)
            return {"action": "update_step_instructions", "stepId": step.id}
        case FailStep():
            return _fail(draft, modification, step)
        case RetryStep():
            return _retry(draft, step)
        case _:
            return _edit_pending(draft, modification, step)


def _edit_pending(draft: Draft, modification: _PendingEdit, step: Step) -> dict[str, Json]:
    why = "the title, dependencies and conditions can be changed only while a step is pending"
    _demand(draft.plan, step, {StepStatus.PENDING}, why, "pending")
    of_step: dict[str, Json] = {"stepId": step.id, "stepOrder": step.order}
    match modification:
        case SetTitle(_, title):
            draft.set_step(step.id, title=title)
            return {"action": "set_title", **of_step}
        case SetDependencies(_, orders):
            draft.set_step(step.id, depends_on=changed_dependencies(draft.plan.steps, step, orders))
            return {"action": "set_dependencies", **of_step, "dependsOn": list[Json](orders)}
        case SetConditions(_, conditions):  # pragma: no branch - there is no fourth
            removed = draft.remove_conditions(step.id)
            for condition in conditions:
                draft.add_condition(condition, step.id)
            added = [c.id for c in draft.plan.conditions if c.step_id == step.id]
            ids = {"removedIds": list[Json](removed), "addedIds": list[Json](added)}
            return {"action": "set_conditions", **of_step, **ids}


def _add(draft: Draft, modification: AddSteps) -> dict[str, Json]:
    if not modification.steps:
        raise InvalidInput("add_steps needs at least one step", argument="steps")
    check_size(len(draft.plan.steps) + len(modification.steps))
    after = insertion_point(draft.plan, modification.after)
    before = len(draft.plan.steps)
    added = draft.add_steps(modification.steps, after=after)
    return {
        "action": "add_steps",
        "stepIds": list[Json](added),
        "insertAfterOrder": after,
        "scope": {"before": before, "added": len(added), "after": before + len(added)},
    }


def _remove(draft: Draft, step: Step) -> dict[str, Json]:
    plan = draft.plan
    _demand(plan, step, {StepStatus.PENDING}, "only a pending step can be removed", "removed")
    alive = {other.id for other in plan.steps if other.status not in DONE_STEP} - {step.id}
    waiting = [c for c in plan.pending_conditions() if c.step_id in alive]
    pointing = [c.id for c in waiting if step.id in {c.target_step_id, *named_steps(c.steps)}]
    if pointing:
        raise NotModifiable(
            f"step {step.order} cannot be removed: a branching condition that has not been "
            "evaluated yet may skip to it, or add a step that depends on it",
            next_call=status_call(plan, "See the plan; fail the step instead of removing it."),
            conditionIds=pointing,
        )
    if len(plan.steps) == 1 and plan.status is not PlanStatus.PLANNING:
        raise NotModifiable(
            "a plan that has started needs at least one step; add another step before you "
            "remove this one",
            next_call=status_call(plan, "See the plan."),
        )
    draft.remove_step(step.id)
    return {"action": "remove_step", "stepId": step.id, "stepOrder": step.order}


def _fail(draft: Draft, modification: FailStep, step: Step) -> dict[str, Json]:
    if modification.attempt not in {None, step.attempt}:
        raise stale_attempt(draft.plan, step, modification.attempt)
    allowed = {StepStatus.PENDING, StepStatus.IN_PROGRESS}
    _demand(draft.plan, step, allowed, "only a pending or running step can be failed", "failed")
    if step.status is StepStatus.PENDING:
        draft.move_step(step.id, StepStatus.IN_PROGRESS)
    draft.move_step(step.id, StepStatus.FAILED, fail_reason=modification.reason)
    draft.record(
        Event.STEP_FAILED, stepId=step.id, stepOrder=step.order, reason=modification.reason
    )
    if modification.retry:
        _back_to_pending(draft, step.id)
    details: dict[str, Json] = {"reason": modification.reason, "retry": modification.retry}
    return {"action": "fail_step", "stepId": step.id, "stepOrder": step.order, **details}


def _retry(draft: Draft, step: Step) -> dict[str, Json]:
    allowed = {StepStatus.FAILED, StepStatus.IN_PROGRESS}
    why = "only a failed or running step can be retried"
    _demand(draft.plan, step, allowed, why, "pending")
    reclaimed = step.status is StepStatus.IN_PROGRESS
    if reclaimed:
        draft.move_step(step.id, StepStatus.FAILED)
    _back_to_pending(draft, step.id)
    attempt = draft.plan.step(step.id).attempt
    details: dict[str, Json] = {"stepId": step.id, "stepOrder": step.order, "attempt": attempt}
    return {
        "action": "retry_step",
        "reclaimedFrom": step.held_by if reclaimed else None,
        **details,
    }


def _back_to_pending(draft: Draft, step_id: StepId) -> None:
    draft.move_step(
        step_id,
        StepStatus.PENDING,
        attempt=draft.plan.step(step_id).attempt + 1,
        held_by=None,
        held_session=None,
        in_progress_since=None,
        fail_reason=None,
        silent_holders=None,
    )


def _demand(plan: Plan, step: Step, allowed: set[StepStatus], why: str, new: str) -> None:
    if step.status not in allowed:
        raise InvalidTransition(
            f"step {step.order} is {step.status}: {why}",
            old=step.status,
            new=new,
            next_call=status_call(plan, "See the status of the step."),
            stepId=step.id,
            allowedFrom=sorted(allowed),
        )


def blocking_reason(plan: Plan, modification: Modification, context: DecisionContext) -> str | None:
    """Return why a modification would be refused, or None if it is allowed."""
    try:
        modify(plan, (modification,), context)
    except Refused as error:
        return error.message
    return None
