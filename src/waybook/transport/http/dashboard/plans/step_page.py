"""Page of a step, with forms that change the step and its conditions.

A condition that compares one field with one value has a form of its own. Other conditions are
edited as JSON.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import orjson
from starlette.datastructures import FormData
from starlette.responses import Response

from waybook.app.queries.comments import Subject
from waybook.app.queries.diagrams import AFTER_LOOP
from waybook.app.queries.plans.step import StepDetail, read_step_detail
from waybook.app.queries.timeline import spans_of
from waybook.app.queries.work_export import condition_arguments
from waybook.app.request.caller import Answer
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
    MODIFIABLE,
    BranchAction,
    Condition,
    NewStep,
    StepId,
    StepStatus,
    StepType,
)
from waybook.plan.ordering import steps_blocked_by_touches
from waybook.plan.repeat import round_of
from waybook.transport.http.dashboard.page import PageRequest, is_number, redirect
from waybook.transport.http.dashboard.plans.plan_page import (
    FormReply,
    Modification,
    build_timeline,
    field_text,
    form_reply,
    modification_arguments,
    moved,
    refused_form,
)
from waybook.transport.http.dashboard.texts import to_rich_text

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
_SUGGESTED_FIELDS: Final = ("result", "confidence", "report", "step.attempt", "plan.failed")
NEW: Final = "new"

#: Values of the form for a condition. `text` describes a condition that the form cannot express.
_ConditionForm: TypeAlias = dict[str, Any]


def _condition_form(
    key: str, typed: Mapping[str, str], text: str = "", **more: object
) -> _ConditionForm:
    form = {"key": key, "values": typed, "text": text}
    return {**form, "faults": {}, "is_open": False, **more}


def condition_forms(detail: StepDetail, reply: FormReply | None) -> dict[str, object]:
    """Return the forms for the conditions of a step, and the choices that the forms offer."""
    orders = {step.id: step.order for step in detail.plan.steps}
    stored = [_form(str(n), item, orders) for n, item in enumerate(_step_conditions(detail))]
    forms = [*stored, _condition_form(NEW, {"operator": "==", "then": "continue"})]
    if reply and reply["action"] == "set_conditions" and "condition" in reply["typed"]:
        typed, faults = reply["typed"], reply["faults"]
        shown = _condition_form(typed["condition"], typed, faults=faults, is_open=True)
        forms = [
            shown if form["key"] == shown["key"] and not form["text"] else form for form in forms
        ]
    return {
        "forms": forms,
        "json": _json(_condition_arguments(detail)) if stored else "",
        "operators": OPERATORS,
        "actions": ACTIONS,
        "fields": _SUGGESTED_FIELDS,
        "step_types": tuple(StepType),
        "max_repeats": MAX_REPEATS,
    }


def _step_conditions(detail: StepDetail) -> list[Condition]:
    return [item for item in detail.conditions if item.step_id == detail.step.id]


def _condition_arguments(detail: StepDetail) -> list[Json]:
    orders = {str(step.id): step.order for step in detail.plan.steps}
    order = detail.step.order
    return [
        condition_arguments(condition_row(item), orders, order) for item in _step_conditions(detail)
    ]


def _form(key: str, condition: Condition, orders: Mapping[StepId, int]) -> _ConditionForm:
    compared, added = read_comparison(condition.expression), condition.steps
    # A plain step has only a type and instructions.
    is_plain = condition.on_exhausted is None and all(
        step == NewStep(type=step.type, instructions=step.instructions) for step in added
    )
    if compared is None or not is_plain or len(added) > 1:
        return _condition_form(key, {}, f"If {condition.expression}: {ACTIONS[condition.action]}")
    named = condition.target_step_id or condition.from_step_id
    values = {
        "field": compared.field,
        "operator": compared.operator,
        "value": compared.value,
        "then": str(condition.action),
        "step": str(orders.get(named, "")) if named else "",
        "times": str(condition.max_repeats or ""),
        "note": condition.reason or "",
    }
    values |= {"type": added[0].type, "instructions": added[0].instructions} if added else {}
    return _condition_form(key, values)


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


PREVIEW_LENGTH: Final = 300
_FEEDBACK_SEPARATOR: Final = "\n\n---\n\nUser feedback: "
_WORKING: Final = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})
_MAX_PREVIEW_LINES: Final = 12


async def step_page(page: PageRequest) -> Response:
    if not page.is_post:
        return await _render(page, await _read(page))
    fields = (await page.form()).fields
    detail, action = await _read(page), field_text(fields, "action")
    modification = _modification(detail, action, fields)
    if action == "set_conditions" and "condition" in fields:
        reply = form_reply(action, fields, code="INVALID_INPUT", status=HTTPStatus.BAD_REQUEST)
        typed, conditions = reply["typed"], _condition_arguments(detail)
        changed = []
        if "remove" not in typed:
            if faults := _faults(detail, typed):
                message = "The condition was not saved. Correct the marked fields."
                return await _render(page, detail, {**reply, "faults": faults, "message": message})
            changed = [_arguments(detail, typed)]
        place = int(typed["condition"]) if is_number(typed["condition"]) else len(conditions)
        conditions[place : place + 1] = changed
        modification["branchingConditions"] = conditions
    is_preview = "preview" in fields
    arguments = modification_arguments(detail.plan.id, fields, modification)
    answer = await page.call_tool("modify_plan", {**arguments, "dryRun": is_preview})
    if answer.is_error:
        return await _render(page, await _read(page), refused_form(answer, action, fields))
    if is_preview:
        lines = _preview_lines(detail, answer)
        return await _render(page, detail, form_reply(action, fields, preview=lines))
    path = f"/plans/{detail.plan.id}"
    return redirect(path if action == "remove_step" else f"{path}/steps/{detail.step.id}")


async def _read(page: PageRequest) -> StepDetail:
    return await read_step_detail(await page.context(), page.path("plan_id"), page.path("step_id"))


def _modification(detail: StepDetail, action: str, fields: FormData) -> Modification:
    if action in {"move_up", "move_down"}:
        ids = [step.id for step in detail.plan.steps]
        order = moved(ids, detail.step.order - 1, up=action == "move_up")
        return {"action": "reorder_steps", "stepIds": order}
    changed: Modification = {}
    match action:
        case "update_step_instructions":
            changed = {"instructions": field_text(fields, "instructions")}
        case "set_title":
            title = field_text(fields, "title")
            changed = {"title": title} if title else {}
        case "set_dependencies":
            parts = field_text(fields, "dependsOn").replace(",", " ").split()
            changed = {"dependsOn": [int(part) if is_number(part) else part for part in parts]}
        case "set_conditions":
            changed = {"branchingConditions": field_text(fields, "conditions") or "[]"}
        case "fail_step":
            changed = {"reason": field_text(fields, "reason"), "retry": "retry" in fields}
    return {"action": action, "stepId": detail.step.id, **changed}


def _preview_lines(detail: StepDetail, answer: Answer) -> list[str]:
    orders, diff = {str(s.id): s.order for s in detail.plan.steps}, answer.body.get("diff")
    removed, moves = list[str](), list[str]()
    for change in diff if isinstance(diff, list) else ():
        if not isinstance(change, dict) or change["entity"] != "step":
            continue
        order = orders.get(change["id"])
        if change["to"] is None:
            removed.append(f"step {order} is removed")
        if change["field"] == "order" and order is not None:
            moves.append(f"step {order} becomes step {change['to']}")
    lines = [*removed, *moves]
    more = len(lines) - _MAX_PREVIEW_LINES
    return [*lines[:_MAX_PREVIEW_LINES], f"and {more} more move"] if more > 0 else lines


async def _render(
    page: PageRequest, detail: StepDetail, reply: FormReply | None = None
) -> Response:
    plan, step, result = detail.plan, detail.step, detail.result
    spans = spans_of(detail.status_changes, detail.now).get(step.id, ())
    instructions, *feedback = detail.text.instructions.split(_FEEDBACK_SEPARATOR)
    schema = detail.text.result_schema
    return await page.render(
        "step",
        status=reply["status"] if reply else 200,
        thread_of=Subject(plan_id=plan.id, step_id=step.id),
        detail=detail,
        plan=plan,
        step=step,
        status_name=detail.states[step.id],
        instructions=to_rich_text(instructions),
        feedback=feedback,
        schema=_json(schema) if schema is not None else None,
        needs=[item for item in plan.steps if item.id in step.depends_on],
        waits_for={s.id: other for s, other in steps_blocked_by_touches(plan)}.get(step.id),
        needed_by=[item for item in plan.steps if step.id in item.depends_on],
        result=_submitted(result.summary) if result else None,
        report=_submitted(result.report) if result else None,
        round=round_of(plan, step),
        line_of=build_timeline(detail.status_changes, detail.now)["lines"].get(step.id),
        attempts=[
            *zip(spans, [c for c in detail.status_changes if c.status in _WORKING], strict=True)
        ],
        is_working=step.status in _WORKING,
        steps={item.id: item for item in plan.steps},
        after_loop=AFTER_LOOP,
        artifacts=[
            (
                stored,
                to_rich_text(stored.content.value),
                [source for source in detail.sources if source.artifact_id == stored.id],
            )
            for stored in detail.research
        ],
        modifiable=plan.status in MODIFIABLE,
        condition_forms=condition_forms(detail, reply),
        reply=reply,
    )


def _submitted(value: Json) -> dict[str, Any] | None:
    """Return a result or report as HTML, with the first words of a long text as a preview.

    A value that is not a text is also returned as JSON.
    """
    prose = to_rich_text(value)
    if prose is None:
        return None
    beginning = " ".join(prose.html.striptags()[:PREVIEW_LENGTH].split()) if prose.long else ""
    as_json = None if isinstance(value, str) else _json(value)
    return {"prose": prose, "preview": beginning, "json": as_json}


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
