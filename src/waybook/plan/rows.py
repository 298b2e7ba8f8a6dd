"""Converts plans, steps, conditions and reviews to the rows that the audit records."""

from dataclasses import fields

from waybook.core.changes import as_json
from waybook.json_values import Json
from waybook.plan.model import Condition, NewCondition, NewStep, Review, Step, StepId, StepText
from waybook.plan.states import StepStatus

#: Optional fields of a step that a condition may add. They are stored only if set.
OPTIONAL_FIELDS = frozenset(
    {"depends_on", "depends_on_ids", "required_sources", "max_attempts", "conditions"}
)


def new_step(step_id: StepId, new: NewStep, order: int) -> Step:
    return Step(
        id=step_id,
        order=order,
        type=new.type,
        title=new.title,
        status=StepStatus.PENDING,
        attempt=1,
        stall_seconds=new.stall_seconds,
        in_progress_since=None,
        last_seen_at=None,
        completed_at=None,
        held_by=None,
        held_session=None,
        fail_reason=None,
        max_attempts=new.max_attempts,
    )


def text_of(new: NewStep) -> StepText:
    return StepText(
        instructions=new.instructions,
        result_schema=new.result_schema,
        required_sources=new.required_sources,
    )


def step_row(step: Step, text: StepText) -> dict[str, Json]:
    names = [name for name in Step._fields if name not in {"id", "last_seen_at"}]
    row = {name: as_json(getattr(step, name)) for name in names}
    text_fields = {"instructions": text.instructions, "result_schema": text.result_schema}
    return {**row, **text_fields, **_required(text.required_sources)}


def condition_row(condition: Condition) -> dict[str, Json]:
    names = [f.name for f in fields(Condition) if f.name not in {"id", "steps"}]
    row = {name: as_json(getattr(condition, name)) for name in names}
    return {**row, "steps": [new_step_row(new) for new in condition.steps] or None}


def new_step_row(new: NewStep) -> dict[str, Json]:
    """Return a step that a condition may add, as JSON."""
    names = [f.name for f in fields(NewStep) if f.name not in OPTIONAL_FIELDS]
    row = {name: as_json(getattr(new, name)) for name in names}
    more: dict[str, Json] = {} if new.max_attempts is None else {"max_attempts": new.max_attempts}
    if new.depends_on_ids:
        more["depends_on_ids"] = [*new.depends_on_ids]
    if new.conditions:
        more["conditions"] = [_new_condition_row(condition) for condition in new.conditions]
    return {**row, **_required(new.required_sources), **more}


def _new_condition_row(new: NewCondition) -> dict[str, Json]:
    """Return a condition of a step that is not added yet, as JSON."""
    unnamed = {"after_step_order", "target_step_order", "from_step_order", "steps"}
    names = [f.name for f in fields(NewCondition) if f.name not in unnamed]
    row = {name: as_json(getattr(new, name)) for name in names}
    steps: dict[str, Json] = {"steps": [new_step_row(s) for s in new.steps]} if new.steps else {}
    return {**{name: value for name, value in row.items() if value is not None}, **steps}


def _required(sources: int | None) -> dict[str, Json]:
    """Return the field `required_sources`, or nothing if no sources are required."""
    return {} if sources is None else {"required_sources": sources}


def review_row(review: Review) -> dict[str, Json]:
    return {f.name: as_json(getattr(review, f.name)) for f in fields(Review) if f.name != "id"}
