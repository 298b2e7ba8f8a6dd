"""Evaluates the conditions of a step when the step completes.

Each condition fires at most once. A condition that raises an error does not fire, and the audit
records the error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waybook.conditions.values import Budget, SharedBudget
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
from waybook.plan.progress import count_done
from waybook.plan.repeat import repeat_steps, round_of, values_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """An evaluated condition, with the steps that it skipped and added."""

    condition: Condition
    outcome: BranchOutcome
    error: str | None = None
    skipped: tuple[StepId, ...] = ()
    added: tuple[StepId, ...] = ()
    note: str | None = None
    #: Values that made a `repeat` condition true, by their paths such as `result.score`.
    values: Mapping[str, Json] = field(default_factory=dict)
    #: Number of operations that the evaluation took.
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
            "onExhausted": self._exhausted(),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _exhausted(self) -> str | None:
        is_exhausted = replace(self.condition, outcome=self.outcome).is_exhausted
        return str(self.condition.on_exhausted or OnExhausted.CONTINUE) if is_exhausted else None


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
        budget = shared.next_budget()
        looked_at = _look(draft, condition, submitted, budget)
        draft.set_condition(condition, outcome=looked_at.outcome)
        branches.append(replace(looked_at, cost=budget.spent))
        if draft.plan.status is PlanStatus.FAILED:
            break
    return branches


def variables(plan: Plan, step: Step, submitted: Mapping[str, Json]) -> dict[str, Json]:
    statuses, repeated = plan.statuses(), round_of(plan, step)
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
            "done": count_done(statuses),
            "total": len(statuses),
            "failed": statuses.count(StepStatus.FAILED),
        },
    }


def _look(
    draft: Draft, condition: Condition, submitted: Mapping[str, Json], budget: Budget
) -> Branch:
    step = draft.plan.step(condition.step_id)
    values = variables(draft.plan, step, submitted)
    compiled = compile_expression(condition.expression)
    seen = compiled.evaluate(values, budget)
    if seen.error is not None:
        return Branch(condition=condition, outcome=BranchOutcome.ERROR, error=seen.error)
    if not seen.fired:
        return Branch(condition=condition, outcome=BranchOutcome.NOT_FIRED)
    return _fire(draft, condition, step, values_read(compiled.tree, values))


def _fire(draft: Draft, condition: Condition, step: Step, values: dict[str, Json]) -> Branch:
    match condition.action:
        case BranchAction.CONTINUE:
            return Branch(condition=condition, outcome=BranchOutcome.FIRED)
        case BranchAction.SKIP_TO:
            return _skip_to(draft, condition, step)
        case BranchAction.ADD_STEPS:
            return _add_steps(draft, condition, step)
        case BranchAction.REPEAT:
            return _repeat(draft, condition, step, values)
        case BranchAction.FAIL:  # pragma: no branch - there is no sixth
            return _fail(draft, condition)


def _skip_to(draft: Draft, condition: Condition, step: Step) -> Branch:
    target = next((s for s in draft.plan.steps if s.id == condition.target_step_id), None)
    if target is None or target.order <= step.order:
        note = "the target step is not after this step: nothing was skipped"
        return Branch(condition=condition, outcome=BranchOutcome.FIRED, note=note)
    between = [
        s.id
        for s in draft.plan.steps_with_status(StepStatus.PENDING)
        if step.order < s.order < target.order
    ]
    for step_id in between:
        draft.move_step(step_id, StepStatus.SKIPPED)
    return Branch(condition=condition, outcome=BranchOutcome.FIRED, skipped=tuple(between))


def _add_steps(draft: Draft, condition: Condition, step: Step) -> Branch:
    if len(draft.plan.steps) + len(condition.steps) > MAX_STEPS:
        error = f"adding {len(condition.steps)} steps would exceed the limit of {MAX_STEPS} steps"
        return Branch(condition=condition, outcome=BranchOutcome.ERROR, error=error)
    added = draft.add_steps(condition.steps, after=step.order)
    return _added(draft, condition, step, added)


def _repeat(draft: Draft, condition: Condition, step: Step, values: dict[str, Json]) -> Branch:
    repeated = repeat_steps(draft, condition, step, values)
    if repeated.error is not None:
        return Branch(condition=condition, outcome=BranchOutcome.ERROR, error=repeated.error)
    fired = Branch(condition=condition, outcome=BranchOutcome.FIRED)
    if repeated.added:
        fired = _added(draft, condition, step, repeated.added)
    return replace(fired, values=values, note=repeated.note)


def _added(draft: Draft, condition: Condition, step: Step, added: list[StepId]) -> Branch:
    """Make pending steps depend on the added steps, and return the branch.

    This applies to pending steps that depend on the completed step.
    """
    unchanged = {*added, *steps_before(draft.plan.steps, added)}
    for other in tuple(draft.plan.steps_with_status(StepStatus.PENDING)):
        if step.id in other.depends_on and other.id not in unchanged:
            draft.set_step(other.id, depends_on=(*other.depends_on, *added))
    draft.set_plan(revision=draft.plan.revision + 1)
    return Branch(condition=condition, outcome=BranchOutcome.FIRED, added=tuple(added))


def _fail(draft: Draft, condition: Condition) -> Branch:
    draft.set_plan(fail_reason=condition.reason or f"condition held: {condition.expression}")
    draft.move_plan(PlanStatus.FAILED)
    return Branch(condition=condition, outcome=BranchOutcome.FIRED)
