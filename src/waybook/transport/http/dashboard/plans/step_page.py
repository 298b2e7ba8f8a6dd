"""Page of a step, with the forms that change it."""

from dataclasses import dataclass
from typing import Final

import orjson
from starlette.datastructures import FormData
from starlette.responses import Response

from waybook.app.queries.diagrams import AFTER_LOOP
from waybook.app.queries.plans.step import StepDetail, read_step_detail
from waybook.app.queries.timeline import spans_of
from waybook.app.request.caller import Answer
from waybook.json_values import Json
from waybook.plan.model import MODIFIABLE, StepStatus
from waybook.plan.repeat import round_of
from waybook.transport.http.dashboard.page import PageRequest, is_number, redirect
from waybook.transport.http.dashboard.plans.condition_forms import (
    condition_forms,
    submitted_conditions,
)
from waybook.transport.http.dashboard.plans.plan_edit import (
    FormReply,
    Modification,
    field_text,
    modification_arguments,
    moved,
    refused_form,
    typed_values,
)
from waybook.transport.http.dashboard.timeline import build_timeline, history_lines
from waybook.transport.http.html.layout import RichText, to_rich_text

PREVIEW_LENGTH: Final = 300
FEEDBACK_SEPARATOR: Final = "\n\n---\n\nUser feedback: "
WORKING: Final = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})
MAX_PREVIEW_LINES: Final = 12


async def step_page(page: PageRequest) -> Response:
    if not page.is_post:
        return await _render(page, await _read(page))
    fields = (await page.form()).fields
    detail, action = await _read(page), field_text(fields, "action")
    modification, typed = _modification(detail, action, fields), typed_values(fields)
    if action == "set_conditions" and "condition" in fields:
        conditions, refused = submitted_conditions(detail, typed)
        if refused:
            return await _render(page, detail, refused)
        modification["branchingConditions"] = conditions
    is_preview = "preview" in fields
    arguments = modification_arguments(detail.plan.id, fields, modification)
    answer = await page.call_tool("modify_plan", {**arguments, "dryRun": is_preview})
    if answer.is_error:
        return await _render(page, await _read(page), refused_form(answer, action, fields))
    if is_preview:
        lines = _preview_lines(detail, answer)
        return await _render(page, detail, FormReply(action=action, typed=typed, preview=lines))
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
    named, diff = {str(step.id): step for step in detail.plan.steps}, answer.body.get("diff")
    changes = [
        change
        for change in (diff if isinstance(diff, list) else ())
        if isinstance(change, dict) and change["entity"] == "step"
    ]
    lines = [
        f"step {named[change['id']].order} is removed" for change in changes if change["to"] is None
    ]
    lines += [
        f"step {named[change['id']].order} becomes step {change['to']}"
        for change in changes
        if change["field"] == "order" and change["id"] in named
    ]
    more = len(lines) - MAX_PREVIEW_LINES
    return [*lines[:MAX_PREVIEW_LINES], f"and {more} more move"] if more > 0 else lines


async def _render(
    page: PageRequest, detail: StepDetail, reply: FormReply | None = None
) -> Response:
    plan, step, result = detail.plan, detail.step, detail.result
    instructions, *feedback = detail.text.instructions.split(FEEDBACK_SEPARATOR)
    schema = detail.text.result_schema
    return await page.render(
        "step",
        status=reply.status if reply else 200,
        detail=detail,
        plan=plan,
        step=step,
        status_name="stalled" if detail.inactive_for else step.status,
        instructions=to_rich_text(instructions),
        feedback=feedback,
        schema=_json(schema) if schema is not None else None,
        before=plan.steps[step.order - 2] if step.order > 1 else None,
        after=plan.steps[step.order] if step.order < len(plan.steps) else None,
        needs=[item for item in plan.steps if item.id in step.depends_on],
        needed_by=[item for item in plan.steps if step.id in item.depends_on],
        result=_submitted(result.summary) if result else None,
        report=_submitted(result.report) if result else None,
        round=round_of(plan, step),
        line=build_timeline(detail.status_changes, detail.now).line(step.id),
        attempts=[
            *zip(
                spans_of(detail.status_changes, detail.now).get(step.id, ()),
                [change for change in detail.status_changes if change.status in WORKING],
                strict=True,
            )
        ],
        is_working=step.status in WORKING,
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
        history=history_lines(detail.history),
        modifiable=plan.status in MODIFIABLE,
        condition_forms=condition_forms(detail, reply),
        reply=reply,
    )


@dataclass(frozen=True, slots=True)
class SubmittedValue:
    """Result or report that an agent submitted: as prose, its beginning, and as JSON."""

    prose: RichText
    preview: str
    json: str | None


def _submitted(value: Json) -> SubmittedValue | None:
    prose = to_rich_text(value)
    if prose is None:
        return None
    beginning = " ".join(prose.html.striptags()[:PREVIEW_LENGTH].split()) if prose.long else ""
    return SubmittedValue(prose, beginning, None if isinstance(value, str) else _json(value))


def _json(value: Json) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
