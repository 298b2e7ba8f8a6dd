"""Page that edits a whole plan: order of the steps, new steps, budget; and what its forms send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.responses import Response

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.request.caller import Answer
from waybook.core.short_ids import short_id
from waybook.core.usage import to_dollars
from waybook.plan.model import MODIFIABLE
from waybook.transport.errors import code_of
from waybook.transport.http.dashboard.page import (
    PageRequest,
    error_message,
    error_status,
    is_number,
    redirect,
)

Modification: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormReply:
    """Submitted form to show again: it was refused, or its effect is shown before it is made."""

    action: str
    typed: Mapping[str, str]
    code: str = ""
    message: str = ""
    status: int = 200
    faults: Mapping[str, str] = field(default_factory=dict)
    preview: Sequence[str] | None = None


def refused_form(answer: Answer, action: str, fields: FormData) -> FormReply:
    return FormReply(
        action=action,
        typed=typed_values(fields),
        code=code_of(answer) or "",
        message=error_message(answer) or "the change failed",
        status=error_status(answer),
    )


def typed_values(fields: FormData) -> dict[str, str]:
    return {k: v for k, v in fields.items() if isinstance(v, str) and k != "token"}


def field_text(fields: FormData, name: str) -> str:
    value = fields.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def modification_arguments(
    plan_id: str, fields: FormData, *modifications: Mapping[str, object]
) -> dict[str, object]:
    revision = field_text(fields, "revision")
    args: dict[str, object] = {"planId": plan_id, "modifications": [*modifications]}
    if why := field_text(fields, "rationale"):
        args["modificationRationale"] = why
    # A form without a revision is refused, because no plan has the revision -1.
    args["expectedRevision"] = int(revision) if is_number(revision) else -1
    return args


def moved(ids: Sequence[str], place: int, *, up: bool) -> list[str]:
    """Return the ids with the one at this place moved up or down."""
    order = [*ids]
    there = max(0, place - 1) if up else min(len(order) - 1, place + 1)
    order[place], order[there] = order[there], order[place]
    return order


async def edit_page(page: PageRequest) -> Response:
    if not page.is_post:
        return await _render(page)
    fields = (await page.form()).fields
    detail, action = await _read(page), field_text(fields, "action")
    arguments = modification_arguments(
        detail.plan.id, fields, _modification(detail, action, fields)
    )
    answer = await page.call_tool("modify_plan", arguments)
    if answer.is_error:
        return await _render(page, refused_form(answer, action, fields))
    path = f"/plans/{detail.plan.id}"
    if action == "add_steps":
        return redirect(path)
    way, _, step = field_text(fields, "move").partition(":")
    old = next((s.order for s in detail.plan.steps if short_id(s.id) == step), None)
    if old is None:
        return redirect(f"{path}/edit")
    order = max(1, old - 1) if way == "up" else min(len(detail.plan.steps), old + 1)
    # The URL has no fragment, because browsers would then ignore autofocus.
    return redirect(f"{path}/edit?{urlencode({'moved': order, 'way': way})}")


async def _read(page: PageRequest) -> PlanDetail:
    return await read_plan_detail(await page.context(), page.path("plan_id"), PlanInclude.NAMES)


async def _render(page: PageRequest, reply: FormReply | None = None) -> Response:
    detail = await _read(page)
    plan, moved_to = detail.plan, page.query("moved") or ""
    steps = {short_id(step.id): step for step in plan.steps}
    order = reply.typed.get("order", "").split(",") if reply else []
    budget, cost = plan.budget, ""
    if budget and budget.cost_micros is not None:
        cost = f"{to_dollars(budget.cost_micros):g}"
    return await page.render(
        "edit_plan",
        status=reply.status if reply else 200,
        detail=detail,
        plan=plan,
        steps={key: steps[key] for key in order} if sorted(order) == sorted(steps) else steps,
        reply=reply,
        is_modifiable=plan.status in MODIFIABLE,
        budget={"tokens": str((budget and budget.tokens) or ""), "cost": cost},
        # The move button that the user pressed last gets the keyboard focus.
        moved=int(moved_to[:9]) if moved_to.isascii() and moved_to.isdecimal() else None,
        way=page.query("way") or "",
    )


def _modification(detail: PlanDetail, action: str, fields: FormData) -> Modification:
    match action:
        case "add_steps":
            step = {name: field_text(fields, name) for name in ("stepType", "instructions")}
            if title := field_text(fields, "title"):
                step["title"] = title
            after = field_text(fields, "after")
            place = {"insertAfterOrder": int(after)} if is_number(after) else {}
            return {"action": action, "steps": [step], **place}
        case "set_budget":
            # Empty fields remove the budget.
            limits = {"tokens": field_text(fields, "tokens"), "costUsd": field_text(fields, "cost")}
            budget = {name: _number(text) for name, text in limits.items() if text}
            return {"action": action, **({"budget": budget} if budget else {})}
        case "reorder_steps":
            ids = [short_id(step.id) for step in detail.plan.steps]
            way, _, step_id = field_text(fields, "move").partition(":")
            if step_id in ids:
                ids = moved(ids, ids.index(step_id), up=way == "up")
            elif order := field_text(fields, "order"):
                ids = order.split(",")
            return {"action": action, "stepIds": ids}
    return {"action": action}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
