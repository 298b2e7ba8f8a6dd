"""HTML forms that modify a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.datastructures import FormData

from waybook.app.queries.plans.step import StepDetail
from waybook.app.request.caller import Answer
from waybook.transport.errors import code_of
from waybook.transport.http.responses import http_status

Modification = dict[str, object]

MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class FormError:
    """Error of a refused form, with the input to show again."""

    action: str
    code: str
    message: str
    typed: Mapping[str, str]
    status: int
    faults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePreview:
    """Preview of a form's effect, with the input to show again."""

    action: str
    lines: list[str]
    typed: Mapping[str, str]


def field_text(fields: FormData, name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def is_number(text: str) -> bool:
    """Return whether the text is a step number or revision of plausible length.

    >>> is_number("12"), is_number(""), is_number("1" * 5000), is_number("²")
    (True, False, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def modification_arguments(
    plan_id: str, fields: FormData, modification: Modification
) -> dict[str, object]:
    revision = field_text(fields, "revision")
    args: dict[str, object] = {"planId": plan_id, "modifications": [modification]}
    if why := field_text(fields, "rationale"):
        args["modificationRationale"] = why
    # A form without a revision is refused, because no plan has the revision -1.
    args["expectedRevision"] = int(revision) if is_number(revision) else -1
    return args


def add_steps_modification(fields: FormData) -> Modification:
    step: dict[str, object] = {
        "stepType": field_text(fields, "stepType"),
        "instructions": field_text(fields, "instructions"),
    }
    if title := field_text(fields, "title"):
        step["title"] = title
    modification: Modification = {"action": "add_steps", "steps": [step]}
    after = field_text(fields, "after")
    if is_number(after):
        modification["insertAfterOrder"] = int(after)
    return modification


def form_error(answer: Answer, action: str, fields: FormData) -> FormError:
    error = answer.body["error"]
    message = error["message"] if isinstance(error, dict) else "the change failed"
    code = code_of(answer) or ""
    return FormError(
        action=action,
        code=code,
        message=str(message),
        typed=typed_values(fields),
        status=refusal_status(answer),
    )


def refusal_status(answer: Answer) -> int:
    code = code_of(answer)
    return HTTPStatus.CONFLICT if code == "STALE_PLAN" else http_status(code)


def step_modification(sheet: StepDetail, action: str, fields: FormData) -> Modification:
    if action in {"move_up", "move_down"}:
        ids = reordered_step_ids(sheet, up=action == "move_up")
        return {"action": "reorder_steps", "stepIds": ids}
    return {"action": action, "stepId": sheet.step.id, **_step_fields(action, fields)}


def _step_fields(action: str, fields: FormData) -> Modification:
    match action:
        case "update_step_instructions":
            return {"instructions": field_text(fields, "instructions")}
        case "set_title":
            title = field_text(fields, "title")
            return {"title": title} if title else {}
        case "set_dependencies":
            return {"dependsOn": _orders(field_text(fields, "dependsOn"))}
        case "set_conditions":
            return {"branchingConditions": field_text(fields, "conditions") or "[]"}
        case "fail_step":
            return {"reason": field_text(fields, "reason"), "retry": "retry" in fields}
        case _:
            return {}


def _orders(text: str) -> list[int | str]:
    parts = text.replace(",", " ").split()
    return [int(part) if is_number(part) else part for part in parts]


def reordered_step_ids(sheet: StepDetail, *, up: bool) -> list[str]:
    ids: list[str] = [step.id for step in sheet.plan.steps]
    here = sheet.step.order - 1
    there = max(0, here - 1) if up else min(len(ids) - 1, here + 1)
    ids[here], ids[there] = ids[there], ids[here]
    return ids


MAX_LINES = 12


def change_preview(sheet: StepDetail, answer: Answer, fields: FormData) -> ChangePreview:
    named = {str(step.id): step for step in sheet.plan.steps}
    diff = answer.body.get("diff")
    changes = (
        [change for change in diff if isinstance(change, dict)] if isinstance(diff, list) else []
    )
    lines = [
        f"step {named[change['id']].order} becomes step {change['to']}"
        for change in changes
        if change["entity"] == "step" and change["field"] == "order" and change["id"] in named
    ]
    gone = [change for change in changes if change["entity"] == "step" and change["to"] is None]
    lines = [*(f"step {named[removal['id']].order} is removed" for removal in gone), *lines]
    more = len(lines) - MAX_LINES
    shown = [*lines[:MAX_LINES], f"and {more} more move"] if more > 0 else lines
    return ChangePreview(
        action=field_text(fields, "action"), lines=shown, typed=typed_values(fields)
    )


def typed_values(fields: FormData) -> dict[str, str]:
    return {k: v for k, v in fields.items() if isinstance(v, str) and k != "token"}
