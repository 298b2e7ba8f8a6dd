"""Forms for the conditions of a step: one per condition, and an empty one for a new condition.

A form shows only conditions that compare one field with one value. Other conditions are edited as
JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import orjson

from waybook.app.queries.plans.step import StepDetail
from waybook.app.queries.work_export import condition_arguments
from waybook.conditions.condition import (
    Comparison,
    compile_condition,
    is_field,
    read_comparison,
    write_comparison,
)
from waybook.errors import BadExpression
from waybook.json_values import Json, non_empty
from waybook.plan.draft import condition_row
from waybook.plan.model import (
    MAX_REPEATS,
    BranchAction,
    Condition,
    NewStep,
    StepId,
    StepType,
)
from waybook.transport.http.dashboard.page import is_number
from waybook.transport.http.dashboard.plans.plan_edit import FormReply

OPERATORS: Final = {
    "==": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is greater than",
    ">=": "is at least",
    "contains": "contains the text",
    "startsWith": "starts with the text",
    "endsWith": "ends with the text",
}
ACTIONS: Final = {
    "continue": "continue, and record the condition",
    "skip_to": "skip to a later step",
    "add_steps": "add a step after this one",
    "repeat": "repeat steps up to this one",
    "fail": "fail the plan",
}
SUGGESTED_FIELDS: Final = ("result", "confidence", "report", "step.attempt", "plan.failed")
NEW: Final = "new"
NOT_SAVED: Final = "The condition was not saved. Correct the marked fields."


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionForm:
    key: str
    values: Mapping[str, str]
    text: str = ""
    faults: Mapping[str, str] = field(default_factory=dict)
    is_open: bool = False

    @property
    def summary(self) -> str:
        if self.text or self.key == NEW:
            return self.text
        named = {name: self.values.get(name, "") for name in ("field", "operator", "value", "then")}
        operator = OPERATORS.get(named["operator"], named["operator"])
        then = ACTIONS.get(named["then"], named["then"])
        return f"If {named['field']} {operator} {named['value']}: {then}"


def condition_forms(detail: StepDetail, reply: FormReply | None) -> dict[str, object]:
    """Return the forms, and the values that they offer."""
    arguments = _own_arguments(detail)
    orders = {step.id: step.order for step in detail.plan.steps}
    stored = [_form(str(n), item, orders) for n, item in enumerate(_own(detail))]
    forms = [*stored, ConditionForm(key=NEW, values={"operator": "==", "then": "continue"})]
    key = reply.typed.get("condition") if reply and reply.action == "set_conditions" else None
    if reply and key is not None:
        shown = ConditionForm(key=key, values=reply.typed, faults=reply.faults, is_open=True)
        forms = [shown if form.key == key and not form.text else form for form in forms]
    json = orjson.dumps(arguments, option=orjson.OPT_INDENT_2).decode() if arguments else ""
    return {
        "forms": forms,
        "json": json,
        "operators": OPERATORS,
        "actions": ACTIONS,
        "fields": SUGGESTED_FIELDS,
        "step_types": tuple(StepType),
        "max_repeats": MAX_REPEATS,
    }


def _own(detail: StepDetail) -> list[Condition]:
    return [item for item in detail.conditions if item.step_id == detail.step.id]


def _own_arguments(detail: StepDetail) -> list[Json]:
    orders = {str(step.id): step.order for step in detail.plan.steps}
    order = detail.step.order
    return [condition_arguments(condition_row(item), orders, order) for item in _own(detail)]


def _form(key: str, condition: Condition, orders: Mapping[StepId, int]) -> ConditionForm:
    compared, added = read_comparison(condition.expression), condition.steps
    # A plain step has only a type and instructions.
    is_plain = condition.on_exhausted is None and all(
        step == NewStep(type=step.type, instructions=step.instructions) for step in added
    )
    if compared is None or not is_plain or len(added) > 1:
        action = ACTIONS[condition.action]
        return ConditionForm(key=key, values={}, text=f"If {condition.expression}: {action}")
    named = condition.target_step_id or condition.from_step_id
    return ConditionForm(
        key=key,
        values={
            "field": compared.field,
            "operator": compared.operator,
            "value": compared.value,
            "then": str(condition.action),
            "step": str(orders.get(named, "")) if named else "",
            "times": str(condition.max_repeats or ""),
            "note": condition.reason or "",
            **({"type": added[0].type, "instructions": added[0].instructions} if added else {}),
        },
    )


def submitted_conditions(
    detail: StepDetail, typed: Mapping[str, str]
) -> tuple[list[Json], FormReply | None]:
    """Return the conditions after the change, or the form with its faults."""
    conditions, key = _own_arguments(detail), typed.get("condition", "")
    place = int(key) if is_number(key) else len(conditions)
    if "remove" in typed:
        return [item for n, item in enumerate(conditions) if n != place], None
    if faults := _faults(detail, typed):
        reply = FormReply(
            action="set_conditions",
            typed=typed,
            code="INVALID_INPUT",
            message=NOT_SAVED,
            status=HTTPStatus.BAD_REQUEST,
            faults=faults,
        )
        return conditions, reply
    return [*conditions[:place], _arguments(detail, typed), *conditions[place + 1 :]], None


def _comparison(typed: Mapping[str, str]) -> Comparison:
    return Comparison(
        field=typed.get("field", "").strip(),
        operator=typed.get("operator", ""),
        value=typed.get("value", "").strip(),
    )


def _faults(detail: StepDetail, typed: Mapping[str, str]) -> dict[str, str]:
    faults = _comparison_faults(_comparison(typed))
    order, last = detail.step.order, len(detail.plan.steps)
    step, times = typed.get("step", "").strip(), typed.get("times", "").strip()
    number = int(step) if is_number(step) else 0
    match typed.get("then"):
        case "skip_to" if not order < number <= last:
            steps = f"a later step: {order + 1} to {last}" if order < last else "a later step"
            faults["step"] = f"Enter the number of {steps}."
        case "repeat" if step and not 1 <= number <= order:
            faults["step"] = f"Enter the number of the first step to repeat: 1 to {order}."
        case "add_steps" if not typed.get("instructions", "").strip():
            faults["instructions"] = "Enter the instructions of the added step."
        case then if then not in ACTIONS:
            faults["then"] = "Choose what happens."
    if typed.get("then") == "repeat" and not (is_number(times) and 1 <= int(times) <= MAX_REPEATS):
        faults["times"] = f"Enter how often the steps may be repeated: 1 to {MAX_REPEATS}."
    return faults


def _comparison_faults(comparison: Comparison) -> dict[str, str]:
    faults: dict[str, str] = {}
    if not is_field(comparison.field):
        faults["field"] = "Enter a field such as result.count, confidence or report."
    if comparison.operator not in OPERATORS:
        faults["operator"] = "Choose an operator."
    if not comparison.value:
        faults["value"] = 'Enter a value; "" is an empty text.'
    if faults:
        return faults
    try:
        compile_condition(write_comparison(comparison))
    except BadExpression as error:
        position = error.details.get("position")
        is_value = isinstance(position, int) and position > len(comparison.field)
        return {"value" if is_value else "field": error.message}
    return {}


def _arguments(detail: StepDetail, typed: Mapping[str, str]) -> Json:
    then, step = typed["then"], typed.get("step", "").strip()
    order = int(step) if step else None
    params = non_empty(
        targetStepOrder=order if then == BranchAction.SKIP_TO else None,
        fromStepOrder=order if then == BranchAction.REPEAT and order != detail.step.order else None,
        max=int(typed["times"]) if then == BranchAction.REPEAT else None,
        steps=[{"stepType": typed.get("type", ""), "instructions": typed["instructions"]}]
        if then == BranchAction.ADD_STEPS
        else None,
        reason=typed.get("note", "").strip() or None,
    )
    return non_empty(
        conditionExpression=write_comparison(_comparison(typed)),
        ifTrueAction=then,
        actionParams=params or None,
    )
