"""Page of a step, with forms that change the step and its conditions.

A condition that adds several steps, or a step with more than a type and instructions, is edited as
JSON.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from starlette.datastructures import FormData
from starlette.responses import Response

from waybook.app.queries.comments import Subject
from waybook.app.queries.diagrams import AFTER_LOOP
from waybook.app.queries.plans.step import StepDetail, read_step_detail
from waybook.app.queries.work_export import condition_arguments
from waybook.json_values import Json, non_empty
from waybook.plan.draft import condition_row
from waybook.plan.model import (
    MAX_REPEATS,
    MODIFIABLE,
    BranchAction,
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
    modification_arguments,
    moved,
    number_or_text,
    refused_form,
)
from waybook.transport.http.dashboard.texts import to_rich_text

#: Words of the forms for the actions of conditions.
ACTIONS: Final = {
    "continue": "continue, and record the condition",
    "skip_to": "skip to a later step",
    "add_steps": "add a step after this one",
    "repeat": "repeat steps up to this one",
    "fail": "fail the plan",
}
_SUGGESTED_FIELDS: Final = ("result", "confidence", "report", "step.attempt", "plan.failed")
_FORM_PARAMS: Final = frozenset({"targetStepOrder", "fromStepOrder", "max", "steps", "reason"})


def condition_forms(detail: StepDetail, reply: FormReply | None) -> dict[str, object]:
    """Return a form for each condition of a step, one for a new condition, and their choices."""
    stored = _conditions(detail)
    typed = reply["typed"] if reply and reply["action"] == "set_conditions" else {}
    forms = [{"key": str(n), "values": _form_values(item)} for n, item in enumerate(stored)]
    forms.append({"key": "new", "values": {"then": "continue"}})
    for form in forms:
        # A condition that only JSON can express has no form.
        if form["key"] == typed.get("condition") and form["values"] is not None:
            form["values"] = typed
    return {
        "forms": forms,
        "stored": stored,
        "opened": typed.get("condition"),
        "json": _json([*stored]) if stored else "",
        "actions": ACTIONS,
        "fields": _SUGGESTED_FIELDS,
        "step_types": tuple(StepType),
        "max_repeats": MAX_REPEATS,
    }


def _conditions(detail: StepDetail) -> list[dict[str, Json]]:
    """Return the conditions of the step as arguments of `modify_plan`."""
    orders = {str(step.id): step.order for step in detail.plan.steps}
    return [
        condition_arguments(condition_row(item), orders, detail.step.order)
        for item in detail.conditions
        if item.step_id == detail.step.id
    ]


def _form_values(condition: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the fields of a condition's form, or None if only JSON can express the condition."""
    given = condition.get("actionParams", {})
    (added, *more) = given.get("steps", [{}])
    if more or given.keys() - _FORM_PARAMS or added.keys() - {"stepType", "instructions"}:
        return None
    return {
        "expression": condition["conditionExpression"],
        "then": condition["ifTrueAction"],
        "step": str(given.get("targetStepOrder") or given.get("fromStepOrder") or ""),
        "times": str(given.get("max") or ""),
        "note": given.get("reason", ""),
        "type": added.get("stepType", ""),
        "instructions": added.get("instructions", ""),
    }


def _submitted_condition(fields: FormData) -> dict[str, Json]:
    then, instructions = field_text(fields, "then"), field_text(fields, "instructions")
    step, times = (number_or_text(field_text(fields, name)) for name in ("step", "times"))
    added: Json = {"stepType": field_text(fields, "type"), "instructions": instructions}
    params = non_empty(
        targetStepOrder=step if then == BranchAction.SKIP_TO else None,
        fromStepOrder=(step or None) if then == BranchAction.REPEAT else None,
        max=times if then == BranchAction.REPEAT else None,
        steps=[added] if then == BranchAction.ADD_STEPS else None,
        reason=field_text(fields, "note") or None,
    )
    return non_empty(
        conditionExpression=field_text(fields, "expression"),
        ifTrueAction=then,
        actionParams=params or None,
    )


PREVIEW_LENGTH: Final = 300
_FEEDBACK_SEPARATOR: Final = "\n\n---\n\nUser feedback: "
_WORKING: Final = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})


async def step_page(page: PageRequest) -> Response:
    if not page.is_post:
        return await _render(page, await _read(page))
    fields = (await page.form()).fields
    detail, action = await _read(page), field_text(fields, "action")
    modification = _modification(detail, action, fields)
    arguments = modification_arguments(detail.plan.id, fields, modification)
    answer = await page.call_tool("modify_plan", arguments)
    if answer.is_error:
        return await _render(page, await _read(page), refused_form(answer, action, fields))
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
            changed = {"dependsOn": [*map(number_or_text, parts)]}
        case "set_conditions" if "condition" in fields:
            conditions, place = _conditions(detail), field_text(fields, "condition")
            at = int(place) if is_number(place) else len(conditions)
            conditions[at : at + 1] = [] if "remove" in fields else [_submitted_condition(fields)]
            changed = {"branchingConditions": conditions}
        case "set_conditions":
            changed = {"branchingConditions": field_text(fields, "conditions") or "[]"}
        case "fail_step":
            changed = {"reason": field_text(fields, "reason"), "retry": "retry" in fields}
    return {"action": action, "stepId": detail.step.id, **changed}


async def _render(
    page: PageRequest, detail: StepDetail, reply: FormReply | None = None
) -> Response:
    plan, step, result = detail.plan, detail.step, detail.result
    timeline = build_timeline(detail.status_changes, detail.now)
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
        timeline=timeline,
        attempts=[
            *zip(
                timeline["spans"].get(step.id, ()),
                [c for c in detail.status_changes if c.status in _WORKING],
                strict=True,
            )
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
