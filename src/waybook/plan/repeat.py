"""The branch action `repeat`: inserts copies of a range of steps after the range."""

from dataclasses import dataclass, field, replace

from waybook.plan.draft import Draft
from waybook.plan.model import (
    MAX_CONDITIONS,
    MAX_STEPS,
    BranchAction,
    Condition,
    ConditionId,
    NewStep,
    Plan,
    Step,
    StepId,
)
from waybook.plan.ordering import replace_ids


@dataclass(frozen=True, slots=True)
class Repeated:
    """Result of `repeat`: the added steps, or the reason why none were added."""

    added: list[StepId] = field(default_factory=list)
    note: str | None = None
    error: str | None = None


def repeated_range(plan: Plan, condition: Condition, step: Step) -> list[Step]:
    """Return the steps that this condition repeats; an empty list if their order has changed."""
    first = next((s for s in plan.steps if s.id == (condition.from_step_id or step.id)), None)
    if first is None:
        return []
    return [s for s in plan.steps if first.order <= s.order <= step.order]


def texts_to_repeat(plan: Plan, step_id: StepId | None) -> set[StepId]:
    """Return the steps whose texts are needed if a condition of this step repeats them.

    Without `step_id`, the conditions of all steps are considered.
    """
    if not plan.conditions:
        return set()
    repeats = [c for c in plan.pending_conditions() if c.action is BranchAction.REPEAT]
    wanted = [c for c in repeats if step_id in {None, c.step_id}]
    return {
        step.id
        for condition in wanted
        for step in repeated_range(plan, condition, plan.step(condition.step_id))
    }


def repeat_steps(draft: Draft, condition: Condition, step: Step) -> Repeated:
    """Insert copies of the steps that a condition repeats, after the completed step.

    Their conditions are copied too. Dependencies and targets that refer to a repeated step refer to
    its copy instead. The condition on the last copy stores the number of repetitions so far.
    """
    repeats, limit = condition.repeats or 0, condition.max_repeats or 0
    if repeats >= limit:
        return Repeated(note=f"already repeated {repeats} times: not repeated again")
    steps = repeated_range(draft.plan, condition, step)
    if not steps:
        return Repeated(note="the first step of the range is not before this step: not repeated")
    conditions = [c for c in draft.plan.conditions if c.step_id in {s.id for s in steps}]
    error = _exceeded(draft.plan, len(steps), len(conditions))
    if error:
        return Repeated(error=error)
    added = draft.add_steps(tuple(_copy(draft.plan, s) for s in steps), after=step.order)
    copies = dict(zip((s.id for s in steps), added, strict=True))
    for original in steps:
        inside = tuple(copies.get(before, before) for before in original.depends_on)
        if inside:
            draft.set_step(copies[original.id], depends_on=inside)
    for original_condition in conditions:
        count = repeats + 1 if original_condition.id == condition.id else None
        draft.insert_condition(_copied_condition(draft, original_condition, copies, count))
    return Repeated(added)


def _exceeded(plan: Plan, steps: int, conditions: int) -> str | None:
    """Return the error message if repeating would exceed a size limit of plans."""
    if len(plan.steps) + steps > MAX_STEPS:
        return f"repeating {steps} steps would exceed the limit of {MAX_STEPS} steps"
    if sum(1 for _ in plan.pending_conditions()) + conditions > MAX_CONDITIONS:
        return f"repeating {conditions} conditions would exceed the limit of {MAX_CONDITIONS}"
    return None


def _copy(plan: Plan, step: Step) -> NewStep:
    text = plan.texts[step.id]
    return NewStep(
        type=step.type,
        instructions=text.instructions,
        title=step.title,
        stall_seconds=step.stall_seconds,
        result_schema=text.result_schema,
        required_sources=text.required_sources,
        max_attempts=step.max_attempts,
    )


def _copied_condition(
    draft: Draft, condition: Condition, copies: dict[StepId, StepId], repeats: int | None
) -> Condition:
    target, first = condition.target_step_id, condition.from_step_id
    return replace(
        condition,
        id=ConditionId(draft.moment.new_id()),
        step_id=copies[condition.step_id],
        position=draft.next_position(),
        target_step_id=copies.get(target, target) if target else None,
        steps=tuple(replace_ids(condition.steps, lambda step_id: copies.get(step_id, step_id))),
        from_step_id=copies.get(first, first) if first else None,
        repeats=repeats,
        outcome=None,
    )
