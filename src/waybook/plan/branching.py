"""Evaluates the conditions of a step when the step completes.

A condition fires if it is true: its action is applied. It fires at most once. If its evaluation
raises an error, it does not fire, and the audit records the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waybook.conditions.values import SharedBudget
from waybook.json_values import Json
from waybook.plan.draft import Draft
from waybook.plan.model import (
    MAX_STEPS,
    BranchAction,
    BranchOutcome,
    Condition,
    OnExhausted,
    Plan,
    PlanStatus,
    Step,
    StepId,
    StepStatus,
)
from waybook.plan.new_conditions import compile_expression
from waybook.plan.ordering import steps_before
from waybook.plan.progress import plan_progress
from waybook.plan.repeat import repeat_steps, round_of, values_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Result of evaluating a condition: the outcome, and the steps that were skipped or added."""

    condition: Condition
    outcome: BranchOutcome
    error: str | None = None
    skipped: tuple[StepId, ...] = ()
    added: tuple[StepId, ...] = ()
    note: str | None = None
    #: Values that made a `repeat` condition true, by their paths such as `result.score`.
    values: Mapping[str, Json] = field(default_factory=dict)
    #: Cost of the evaluation: the number of operations.
    cost: int = 0

    def as_json(self) -> dict[str, Json]:
        fields: dict[str, Json] = {
            "action": str(self.condition.action),
            "conditionId": self.condition.id,
            "expression": self.condition.expression,
            "outcome": str(self.outcome),
            "error": self.error,
            "targetStepId": self.condition.target_step_id,
            "skippedStepIds": list(self.skipped) or None,
            "addedStepIds": list(self.added) or None,
            "reason": self.condition.reason,
            "note": self.note,
            "values": {**self.values} or None,
        }
        if replace(self.condition, outcome=self.outcome).is_exhausted:
            fields["onExhausted"] = str(self.condition.on_exhausted or OnExhausted.CONTINUE)
        return {name: value for name, value in fields.items() if value is not None}


def evaluate_conditions(
    draft: Draft, step_id: StepId, submitted: Mapping[str, Json]
) -> list[Branch]:
    """Evaluate the conditions of a step that has just completed, and apply those that fire."""
    branches: list[Branch] = []
    if not draft.plan.conditions:
        return branches
    waiting = [c for c in draft.plan.pending_conditions() if c.step_id == step_id]
    shared = SharedBudget(len(waiting))
    for condition in waiting:
        budget, step = shared.next_budget(), draft.plan.step(step_id)
        values = variables(draft.plan, step, submitted)
        compiled = compile_expression(condition.expression)
        seen = compiled.evaluate(values, budget)
        if seen.error is not None:
            branch = Branch(condition=condition, outcome=BranchOutcome.ERROR, error=seen.error)
        elif seen.fired:
            branch = _fire(draft, condition, step, values_read(compiled.tree, values))
        else:
            branch = Branch(condition=condition, outcome=BranchOutcome.NOT_FIRED)
        draft.set_outcome(condition, branch.outcome)
        branches.append(replace(branch, cost=budget.spent))
        if draft.plan.status is PlanStatus.FAILED:
            break
    return branches


def variables(plan: Plan, step: Step, submitted: Mapping[str, Json]) -> dict[str, Json]:
    progress, repeated = plan_progress(plan), round_of(plan, step)
    return {
        "result": submitted.get("result_summary"),
        "confidence": submitted.get("confidence"),
        "report": submitted.get("report"),
        "step": {
            "order": step.order,
            "type": str(step.type),
            "attempt": step.attempt,
            "round": repeated.number if repeated else 1,
        },
        "plan": {
            "done": progress.done,
            "total": progress.total,
            "failed": progress.failed,
        },
    }


def _fire(draft: Draft, condition: Condition, step: Step, values: dict[str, Json]) -> Branch:
    fired = Branch(condition=condition, outcome=BranchOutcome.FIRED)
    match condition.action:
        case BranchAction.SKIP_TO:
            return _skip_to(draft, fired, step)
        case BranchAction.ADD_STEPS:
            count = len(condition.steps)
            if len(draft.plan.steps) + count > MAX_STEPS:
                excess = f"adding {count} steps would exceed the limit of {MAX_STEPS} steps"
                return replace(fired, outcome=BranchOutcome.ERROR, error=excess)
            return _added(draft, fired, step, draft.add_steps(condition.steps, after=step.order))
        case BranchAction.REPEAT:
            added, note, error = repeat_steps(draft, condition, step, values)
            if error is not None:
                return replace(fired, outcome=BranchOutcome.ERROR, error=error)
            if added:
                fired = _added(draft, fired, step, added)
            return replace(fired, values=values, note=note)
        case BranchAction.FAIL:
            reason = condition.reason or f"condition held: {condition.expression}"
            draft.set_plan(fail_reason=reason)
            draft.move_plan(PlanStatus.FAILED)
    return fired


def _skip_to(draft: Draft, fired: Branch, step: Step) -> Branch:
    wanted = fired.condition.target_step_id
    target = next((s for s in draft.plan.steps if s.id == wanted), None)
    if target is None or target.order <= step.order:
        return replace(fired, note="the target step is not after this step: nothing was skipped")
    between = [
        s.id
        for s in draft.plan.steps_with_status(StepStatus.PENDING)
        if step.order < s.order < target.order
    ]
    for step_id in between:
        draft.move_step(step_id, StepStatus.SKIPPED)
    return replace(fired, skipped=tuple(between))


def _added(draft: Draft, fired: Branch, step: Step, added: list[StepId]) -> Branch:
    """Make the pending steps that depend on the completed step depend on the new steps too."""
    unchanged = {*added, *steps_before(draft.plan.steps, added)}
    for other in tuple(draft.plan.steps_with_status(StepStatus.PENDING)):
        if step.id in other.depends_on and other.id not in unchanged:
            draft.set_step(other.id, depends_on=(*other.depends_on, *added))
    draft.set_plan(revision=draft.plan.revision + 1)
    return replace(fired, added=tuple(added))
