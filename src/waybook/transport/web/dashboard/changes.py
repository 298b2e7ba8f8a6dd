"""Forms that change a plan, as the modifications they ask for; and what stood in their way."""

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import FormData

from waybook.transport.mcp.refusals import code_of
from waybook.transport.web.reading import status_of
from waybook.usecases.exchange import Answer

Modification = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a form was not carried out, and what was typed into it."""

    action: str
    code: str
    message: str
    typed: Mapping[str, str]
    status: int


def text_of(fields: FormData, name: str) -> str:
    """What stands in a field; a field that is not there is empty."""
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def changed(plan_id: str, fields: FormData, modification: Modification) -> dict[str, object]:
    """The call that carries a form out, upon the plan as the person saw it."""
    revision = text_of(fields, "revision")
    asked: dict[str, object] = {"planId": plan_id, "modifications": [modification]}
    if why := text_of(fields, "rationale"):
        asked["modificationRationale"] = why
    # A form without the revision is none of ours; no plan has this one.
    asked["expectedRevision"] = int(revision) if revision.isdecimal() else -1
    return asked


def new_steps(fields: FormData) -> Modification:
    """One step more, behind the one that was chosen."""
    step: dict[str, object] = {
        "stepType": text_of(fields, "stepType"),
        "instructions": text_of(fields, "instructions"),
    }
    if title := text_of(fields, "title"):
        step["title"] = title
    asked: Modification = {"action": "add_steps", "steps": [step]}
    after = text_of(fields, "after")
    if after.isdecimal():
        asked["insertAfterOrder"] = int(after)
    return asked


def refused(answer: Answer, action: str, fields: FormData) -> Refusal:
    """The refusal, beside what was typed."""
    error = answer.body["error"]
    message = error["message"] if isinstance(error, dict) else "this did not work"
    code = code_of(answer) or ""
    typed = {name: value for name, value in fields.items() if isinstance(value, str)}
    typed.pop("token", None)
    return Refusal(
        action=action,
        code=code,
        message=str(message),
        typed=typed,
        status=409 if code == "STALE_PLAN" else status_of(code),
    )
