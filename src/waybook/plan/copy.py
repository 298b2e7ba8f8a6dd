"""Copies a plan as it was at a given audit entry, with the results that existed by then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from waybook.core.changes import Entity, Event, Row, Rows
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidStepReference, NextCall, NotModifiable
from waybook.json_values import Json
from waybook.plan.create import NewPlan, blank_plan, plan_row, skill_details
from waybook.plan.draft import RESULT_FIELDS, Decision, Draft, register_session, step_row
from waybook.plan.model import (
    DONE_STEP,
    GROWING,
    KEPT_FIELDS,
    BranchAction,
    BranchOutcome,
    Budget,
    OnExhausted,
    Plan,
    PlanId,
    PlanStatus,
    Step,
    StepId,
    StepStatus,
    StepText,
    StepType,
)

MAX_NAME_LENGTH = 200
COPY_SUFFIX = " (copy)"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPlan:
    id: str
    seq: int
    rows: Rows
    up_to_step: int | None = None


def copy_plan(
    source: CopiedPlan,
    context: DecisionContext,
    *,
    name: str | None = None,
    skill_execution_id: str | None = None,
) -> Decision[Plan]:
    """Create a plan with the steps, conditions and completed results of another plan.

    By default, the copy is named after the original plan.

    Raises:
        InvalidStepReference: `up_to_step` is not a position of the plan.
        NotModifiable: the copy would have no step left to do.
    """
    rows, last = source.rows.get("step", {}), source.up_to_step
    steps = sorted(rows.items(), key=lambda item: cast("int", item[1]["order"]))
    total = len(steps)
    if last is not None and not 0 <= last <= total:
        raise InvalidStepReference(
            f"upToStep is {last}, but the steps of that plan are numbered 1 to {total}; use 0 to "
            "copy no results",
            argument="upToStep",
            given=last,
            totalSteps=total,
        )
    done = [(step_id, row) for step_id, row in steps if row["status"] in DONE_STEP]
    carried = {i for i, row in done if last is None or cast("int", row["order"]) <= last}
    if len(carried) == total:
        raise NotModifiable(
            f"all {total} steps of that plan are done, so a copy would have nothing left to do; "
            "copy fewer results with upToStep",
            argument="upToStep",
            totalSteps=total,
            next_call=NextCall(
                "get_plan_status", {"planId": source.id}, "See the steps, then choose upToStep."
            ),
        )
    new = _new_plan(source, name, skill_execution_id)
    blank = blank_plan(new, PlanId(context.new_id()), context)
    status = PlanStatus.EXECUTING if carried else PlanStatus.PLANNING
    draft = Draft(blank, context)
    draft.plan = blank._replace(status=status, copied_from=PlanId(source.id), copied_seq=source.seq)
    draft.insert(Entity.PLAN, blank.id, plan_row(draft.plan, new))
    ids = {step_id: StepId(context.new_id()) for step_id, _ in steps}
    for order, (step_id, row) in enumerate(steps, 1):
        _copy_step(draft, order, row, ids, StepId(step_id), is_carried=step_id in carried)
    _copy_conditions(draft, source.rows.get("condition", {}), ids, carried)
    register_session(draft)
    draft.record(
        Event.PLAN_MODIFIED,
        action="created",
        steps=total,
        copiedFrom={"planId": source.id, "auditSeq": source.seq},
        carriedOver={str(ids[step_id]): step_id for step_id in ids if step_id in carried},
        **skill_details(new),
    )
    return draft.decide(draft.plan)


def _new_plan(source: CopiedPlan, name: str | None, skill_execution_id: str | None) -> NewPlan:
    (old,) = source.rows["plan"].values()
    copied_name = f"{str(old['name'])[: MAX_NAME_LENGTH - len(COPY_SUFFIX)]}{COPY_SUFFIX}"
    budget = cast("dict[str, int | None] | None", old.get("budget"))
    return NewPlan(
        name=name or copied_name,
        research_question=str(old["research_question"]),
        steps=(),
        formatting_notes=cast("str | None", old.get("formatting_notes")),
        stall_seconds=cast("int | None", old.get("stall_seconds")),
        skill_execution_id=skill_execution_id,
        budget=Budget(**budget) if budget else None,
        sequential=bool(old.get("sequential")),
    )


def _copy_step(
    draft: Draft,
    order: int,
    row: Row,
    ids: Mapping[str, StepId],
    original: StepId,
    *,
    is_carried: bool,
) -> None:
    kept: dict[str, Any] = {name: row.get(name) for name in KEPT_FIELDS}
    step = Step(
        **{**kept, "type": StepType(str(row["type"]))},
        id=ids[original],
        order=order,
        status=StepStatus(str(row["status"])) if is_carried else StepStatus.PENDING,
        attempt=1,
        completed_at=draft.moment.now if is_carried else None,
        # A copied result keeps its author, but not the author's session, which belongs to the
        # original plan.
        held_by=cast("str | None", row["held_by"]) if is_carried else None,
        depends_on=tuple(ids[str(i)] for i in _items(row.get("depends_on")) if str(i) in ids),
        copied_from=original,
    )
    text = StepText(
        instructions=str(row["instructions"]),
        result_schema=row.get("result_schema"),
        required_sources=cast("int | None", row.get("required_sources")),
    )
    results = {name: row[name] for name in RESULT_FIELDS if row.get(name) is not None}
    draft.insert(Entity.STEP, step.id, {**step_row(step, text), **(results if is_carried else {})})
    draft.plan = draft.plan._replace(
        steps=(*draft.plan.steps, step), texts={**draft.plan.texts, step.id: text}
    )


def _copy_conditions(
    draft: Draft, rows: Mapping[str, Row], ids: Mapping[str, StepId], carried: set[str]
) -> None:
    """Copy the conditions of the copied steps.

    A condition that has already added steps is left out if its step must be done again: the copy of
    the plan has these steps already, and the condition would add them a second time.
    """
    for row in sorted(rows.values(), key=lambda row: cast("int", row["position"])):
        is_evaluated = row["step_id"] in carried
        is_last = row["action"] == BranchAction.REPEAT and row.get("repeats") == row.get(
            "max_repeats"
        )
        is_exhausted = is_last and row.get("on_exhausted") != OnExhausted.REVIEW
        has_fired = row.get("outcome") == BranchOutcome.FIRED and row["action"] in GROWING
        if not is_evaluated and has_fired and not is_exhausted:
            continue
        copied = {
            **cast("Row", _with_ids(row, ids)),
            "outcome": row.get("outcome") if is_evaluated else None,
        }
        draft.insert(Entity.CONDITION, draft.moment.new_uuid(), copied)


_STEP_ID_FIELDS = frozenset({"step_id", "target_step_id", "from_step_id"})
_NESTED_FIELDS = frozenset({"steps", "conditions", "cause"})


def _with_ids(value: Json, ids: Mapping[str, StepId], name: str = "steps") -> Json:
    """Replace the original step ids in a condition's field `name` by those of the copy."""
    if name in _STEP_ID_FIELDS:
        return ids.get(str(value), value)
    if name == "depends_on_ids":
        return [ids.get(str(step_id), step_id) for step_id in _items(value)]
    if isinstance(value, dict) and name == "copies":
        return {ids.get(copy, copy): ids.get(str(step), step) for copy, step in value.items()}
    if isinstance(value, dict) and name in _NESTED_FIELDS:
        return {field: _with_ids(inner, ids, field) for field, inner in value.items()}
    if isinstance(value, list) and name in _NESTED_FIELDS:
        return [_with_ids(item, ids) for item in value]
    return value


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()
