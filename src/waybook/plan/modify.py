"""Applies a list of changes to a plan's steps: all of them or none."""

from abc import ABC, abstractmethod
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
from waybook.plan.draft import (
    Decision,
    Draft,
    register_session,
    require_open,
    resume_plan,
    settle,
    status_call,
    wait_call,
)
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
from waybook.plan.submit import stale_attempt

S = StepStatus


class Modification(ABC):
    @abstractmethod
    def apply(self, draft: Draft) -> dict[str, Json]:
        """Apply the modification to the plan, and return the details for the audit."""


@dataclass(frozen=True, slots=True)
class AddSteps(Modification):
    steps: tuple[NewStep, ...]
    after: int | None = None

    def apply(self, draft: Draft) -> dict[str, Json]:
        if not self.steps:
            raise InvalidInput("add_steps needs at least one step", argument="steps")
        before = len(draft.plan.steps)
        check_size(before + len(self.steps))
        after = insertion_point(draft.plan, self.after)
        added = draft.add_steps(self.steps, after=after)
        return {
            "action": "add_steps",
            "stepIds": list[Json](added),
            "insertAfterOrder": after,
            "scope": {"before": before, "added": len(added), "after": before + len(added)},
        }


@dataclass(frozen=True, slots=True)
class ReorderSteps(Modification):
    step_ids: tuple[StepId, ...]

    def apply(self, draft: Draft) -> dict[str, Json]:
        draft.reorder(validate_order(draft.plan, list(self.step_ids)))
        return {"action": "reorder_steps", "stepIds": list(self.step_ids)}


@dataclass(frozen=True, slots=True)
class SetBudget(Modification):
    budget: Budget | None

    def apply(self, draft: Draft) -> dict[str, Json]:
        draft.set_budget(self.budget)
        return {"action": "set_budget", "budget": self.budget.as_json() if self.budget else None}


@dataclass(frozen=True, slots=True)
class CancelPlan(Modification):
    reason: str

    def apply(self, draft: Draft) -> dict[str, Json]:
        draft.set_plan(fail_reason=self.reason, canceled=True)
        draft.move_plan(PlanStatus.FAILED)
        return {"action": "cancel_plan", "reason": self.reason}


@dataclass(frozen=True, slots=True)
class StepModification(Modification):
    step_id: StepId

    def apply(self, draft: Draft) -> dict[str, Json]:
        step = next((s for s in draft.plan.steps if s.id == self.step_id), None)
        if step is None:
            raise InvalidStepReference(
                "there is no such step in this plan",
                next_call=status_call(draft.plan, "See the plan's steps and their ids."),
                stepId=self.step_id,
            )
        return self.apply_to(step, draft)

    @abstractmethod
    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        """Apply the modification to its step, and return the details for the audit."""


@dataclass(frozen=True, slots=True)
class RemoveStep(StepModification):
    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        plan = draft.plan
        _demand(plan, step, {S.PENDING}, "only a pending step can be removed", "removed")
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


@dataclass(frozen=True, slots=True)
class UpdateInstructions(StepModification):
    instructions: str

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        is_new = draft.plan.texts[step.id].instructions != self.instructions
        is_mine = draft.moment.actor.holder.is_same_conversation(step.holder)
        if is_new and step.holder and not is_mine and step.answers_revision is None:
            # The holder still has the old instructions, so record the plan's revision before the
            # change.
            draft.set_step(step.id, answers_revision=draft.plan.revision)
        draft.set_instructions(step.id, self.instructions)
        draft.record_heartbeat(step.id)
        return {"action": "update_step_instructions", "stepId": step.id}


@dataclass(frozen=True, slots=True)
class FailStep(StepModification):
    reason: str
    retry: bool = False
    attempt: int | None = None

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        if self.attempt not in {None, step.attempt}:
            raise stale_attempt(draft.plan, step, self.attempt)
        why = "only a pending or running step can be failed"
        _demand(draft.plan, step, {S.PENDING, S.IN_PROGRESS}, why, "failed")
        if step.status is S.PENDING:
            draft.move_step(step.id, S.IN_PROGRESS)
        draft.move_step(step.id, S.FAILED, fail_reason=self.reason)
        failed: dict[str, Json] = {"stepId": step.id, "stepOrder": step.order}
        draft.record(Event.STEP_FAILED, **failed, reason=self.reason)
        if self.retry:
            _back_to_pending(draft, step)
        return {"action": "fail_step", **failed, "reason": self.reason, "retry": self.retry}


@dataclass(frozen=True, slots=True)
class RetryStep(StepModification):
    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        why = "only a failed or running step can be retried"
        _demand(draft.plan, step, {S.FAILED, S.IN_PROGRESS}, why, "pending")
        is_running = step.status is S.IN_PROGRESS
        if is_running:
            draft.move_step(step.id, S.FAILED)
        _back_to_pending(draft, step)
        return {
            "action": "retry_step",
            "reclaimedFrom": step.held_by if is_running else None,
            "stepId": step.id,
            "stepOrder": step.order,
            "attempt": step.attempt + 1,
        }


@dataclass(frozen=True, slots=True)
class SetTitle(StepModification):
    title: str | None

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        pending = _require_pending(draft.plan, step)
        draft.set_step(step.id, title=self.title)
        return {"action": "set_title", **pending}


@dataclass(frozen=True, slots=True)
class SetDependencies(StepModification):
    depends_on: tuple[int, ...]

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        pending = _require_pending(draft.plan, step)
        before = changed_dependencies(draft.plan.steps, step, self.depends_on)
        draft.set_step(step.id, depends_on=before)
        return {"action": "set_dependencies", **pending, "dependsOn": list[Json](self.depends_on)}


@dataclass(frozen=True, slots=True)
class SetTouches(StepModification):
    touches: str | None

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        pending = _require_pending(draft.plan, step)
        draft.set_step(step.id, touches=self.touches)
        return {"action": "set_touches", **pending, "touches": draft.plan.step(step.id).touched}


@dataclass(frozen=True, slots=True)
class SetConditions(StepModification):
    conditions: tuple[NewCondition, ...]

    def apply_to(self, step: Step, draft: Draft) -> dict[str, Json]:
        pending = _require_pending(draft.plan, step)
        removed = draft.remove_conditions(step.id)
        for condition in self.conditions:
            draft.add_condition(condition, step.id)
        added = [c.id for c in draft.plan.conditions if c.step_id == step.id]
        ids = {"removedIds": list[Json](removed), "addedIds": list[Json](added)}
        return {"action": "set_conditions", **pending, **ids}


def _require_pending(plan: Plan, step: Step) -> dict[str, Json]:
    why = "the title, touches, dependencies and conditions can change only while a step is pending"
    _demand(plan, step, {S.PENDING}, why, "pending")
    return {"stepId": step.id, "stepOrder": step.order}


def _back_to_pending(draft: Draft, step: Step) -> None:
    draft.move_step(
        step.id,
        S.PENDING,
        attempt=step.attempt + 1,
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
        NotModifiable: the plan waits for a review, or one of its steps must not be removed.
        StalePlan: the plan has changed since the caller read it.
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
        details = modification.apply(draft)
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


def blocking_reason(plan: Plan, modification: Modification, context: DecisionContext) -> str | None:
    """Return why a modification would be refused, or None if it is allowed."""
    try:
        modify(plan, (modification,), context)
    except Refused as error:
        return error.message
    return None
