"""Carries out the action `repeat` of a condition: inserts copies of the steps to repeat."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from json import dumps
from typing import Final, NamedTuple, cast

from waybook.conditions.parser import Node, paths
from waybook.json_values import Json
from waybook.plan.draft import Draft
from waybook.plan.model import (
    DONE_STEP,
    KEPT_FIELDS,
    MAX_CONDITIONS,
    MAX_STEPS,
    TEXT_FIELDS,
    BranchAction,
    BranchOutcome,
    Cause,
    Condition,
    ConditionId,
    NewStep,
    OnExhausted,
    Plan,
    PlanStatus,
    Round,
    Step,
    StepId,
    StepType,
    fields_of,
)
from waybook.plan.ordering import with_new_ids

#: A repetition stores the values that made its condition true: at most `_MAX_VALUES` values, each
#: cut to `MAX_VALUE_LENGTH` characters.
_MAX_VALUES: Final = 20
MAX_VALUE_LENGTH: Final = 200


class Repeated(NamedTuple):
    added: list[StepId]
    note: str | None = None
    error: str | None = None


def repeated_range(plan: Plan, condition: Condition, step: Step) -> list[Step]:
    """Return the steps that a condition repeats, from the condition's first step to `step`.

    The list is empty if the first step was moved behind `step` or removed.
    """
    first = next((s for s in plan.steps if s.id == (condition.from_step_id or step.id)), None)
    if first is None:
        return []
    return [s for s in plan.steps if first.order <= s.order <= step.order]


def texts_to_repeat(plan: Plan, step_id: StepId | None) -> set[StepId]:
    """Return the steps whose texts must be loaded, because a condition may copy the steps."""
    if not plan.conditions:
        return set()
    repeats = [c for c in plan.pending_conditions() if c.action is BranchAction.REPEAT]
    wanted = [c for c in repeats if step_id in {None, c.step_id}]
    return {
        step.id
        for condition in wanted
        for step in repeated_range(plan, condition, plan.step(condition.step_id))
    }


def round_of(plan: Plan, step: Step) -> Round | None:
    """Return the repetition that a step belongs to, or None if the step is not a copy."""
    repeating = [c for c in plan.conditions if c.cause and step.id in c.cause["copies"]]
    if not repeating:
        return None
    condition, steps = repeating[-1], {str(other.id): other for other in plan.steps}
    cause = condition.cause or Cause(values={}, copies={})
    latest = [
        copy if copy in steps and steps[copy].status in DONE_STEP else original
        for copy, original in cause["copies"].items()
    ]
    number, most = (condition.repeats or 0) + 1, (condition.max_repeats or 0) + 1
    ended = tuple(steps[step_id] for step_id in latest if step_id in steps)
    return Round(number, most, condition, cause["values"], ended)


def current_loops(plan: Plan) -> list[Condition]:
    """Return the latest copy of each `repeat` condition.

    When a condition repeats steps, the condition itself is copied too. From then on, only the copy
    is returned.
    """
    ids = {step.id for step in plan.steps}
    loops = [c for c in plan.conditions if c.action is BranchAction.REPEAT and c.step_id in ids]
    return [c for c in loops if c.outcome is not BranchOutcome.FIRED or c.is_exhausted]


def repeat_steps(
    draft: Draft, condition: Condition, step: Step, values: dict[str, Json]
) -> Repeated:
    """Insert copies of the steps that a condition repeats, after the completed step.

    The conditions of these steps are copied too. If a repeated step depends on another repeated
    step, its copy depends on the copy of that step.
    """
    repeats, limit = condition.repeats or 0, condition.max_repeats or 0
    if repeats >= limit:
        return _end(draft, condition, step, values)
    steps = repeated_range(draft.plan, condition, step)
    if not steps:
        return Repeated(
            [], note="the first step of the range is not before this step: not repeated"
        )
    conditions = [c for c in draft.plan.conditions if c.step_id in {s.id for s in steps}]
    error = _exceeded(draft.plan, len(steps), len(conditions))
    if error:
        return Repeated([], error=error)
    texts = draft.plan.texts
    again = (fields_of(s, KEPT_FIELDS) | fields_of(texts[s.id], TEXT_FIELDS) for s in steps)
    added = draft.add_steps(tuple(NewStep(**fields) for fields in again), after=step.order)
    copies = dict(zip((s.id for s in steps), added, strict=True))
    for original in steps:
        inside = tuple(copies.get(before, before) for before in original.depends_on)
        if inside:
            draft.set_step(copies[original.id], depends_on=inside)
    cause = Cause(values=values, copies={copy: original for original, copy in copies.items()})
    for old in conditions:
        new = replace(
            with_new_ids(old, lambda step_id: copies.get(step_id, step_id)),
            id=ConditionId(draft.moment.new_uuid()),
            step_id=copies[old.step_id],
            position=draft.next_position(),
            repeats=None,
            cause=None,
            outcome=None,
        )
        is_own = old.id == condition.id
        draft.insert_condition(replace(new, repeats=repeats + 1, cause=cause) if is_own else new)
    return Repeated(added)


def _end(draft: Draft, condition: Condition, step: Step, values: dict[str, Json]) -> Repeated:
    """Carry out `onExhausted`, because the condition is still true after the last repetition."""
    count = "once" if condition.repeats == 1 else f"{condition.repeats} times"
    seen = ", ".join(f"{path} = {dumps(value)}" for path, value in values.items())
    why = f"repeated {count}, and {condition.expression} is still true" + f" ({seen})" * bool(seen)
    match condition.on_exhausted:
        case OnExhausted.FAIL:
            draft.set_plan(fail_reason=f"step {step.order} was {why}")
            draft.move_plan(PlanStatus.FAILED)
        case OnExhausted.REVIEW:
            error = _exceeded(draft.plan, 1, 0)
            if error:
                return Repeated([], error=error)
            ask = NewStep(
                type=StepType.CHECKPOINT,
                title="Decide how to continue",
                instructions=f"Step {step.order} was {why}. Show a person the latest results and "
                "ask how to continue.",
            )
            return Repeated(draft.add_steps((ask,), after=step.order), note=why)
    return Repeated([], note=f"{why}: not repeated again")


def values_read(tree: Node, variables: Mapping[str, Json]) -> dict[str, Json]:
    """Return the values that an expression reads, by their paths. Long values are cut.

    >>> from waybook.conditions.parser import parse
    >>> values_read(parse("confidence < 0.5 || 'step' in result.tags"), {"confidence": 0.3})
    {'confidence': 0.3}
    """
    values: dict[str, Json] = {}
    for path in islice(paths(tree), _MAX_VALUES):
        value: Json = cast("Json", variables)
        for part in path:
            if not isinstance(value, dict) or part not in value:
                break
            value = value[part]
        else:
            text = value if isinstance(value, str) else dumps(value)
            is_long = len(text) > MAX_VALUE_LENGTH
            values[".".join(path)] = f"{text[:MAX_VALUE_LENGTH]}…" if is_long else value
    return values


def _exceeded(plan: Plan, steps: int, conditions: int) -> str | None:
    if len(plan.steps) + steps > MAX_STEPS:
        return f"repeating {steps} steps would exceed the limit of {MAX_STEPS} steps"
    if sum(1 for _ in plan.pending_conditions()) + conditions > MAX_CONDITIONS:
        return f"repeating {conditions} conditions would exceed the limit of {MAX_CONDITIONS}"
    return None
