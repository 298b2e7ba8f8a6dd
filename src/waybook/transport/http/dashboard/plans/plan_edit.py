"""Page that edits a whole plan: the order of the steps, new steps, and the budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.core.short_ids import short_id
from waybook.core.usage import to_dollars
from waybook.plan.model import MODIFIABLE, Budget, StepStatus
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.http.dashboard.plans.plan_forms import (
    FormError,
    Modification,
    add_steps_modification,
    field_text,
    form_error,
    modification_arguments,
)
from waybook.transport.http.html.forms import query_param, read_form

ADD, REORDER, BUDGET = "add_steps", "reorder_steps", "set_budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRow:
    id: str
    order: int
    name: str
    status: str
    is_movable: bool
    #: Move button that gets the keyboard focus, because the user pressed it last.
    focus: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEditView:
    rows: Sequence[EditRow]
    is_modifiable: bool
    budget: Mapping[str, str]
    refusal: FormError | None = None
    typed: Mapping[str, str] = field(default_factory=dict)


def reorder_modification(sheet: PlanDetail, fields: FormData) -> Modification:
    ids = [short_id(step.id) for step in sheet.plan.steps]
    way, _, moved = field_text(fields, "move").partition(":")
    if moved in ids:
        here = ids.index(moved)
        there = max(0, here - 1) if way == "up" else min(len(ids) - 1, here + 1)
        ids[here], ids[there] = ids[there], ids[here]
    elif order := field_text(fields, "order"):
        ids = order.split(",")
    return {"action": REORDER, "stepIds": ids}


def budget_modification(fields: FormData) -> Modification:
    """Return the modification that sets the budget. Empty fields remove the budget."""
    limits = {"tokens": field_text(fields, "tokens"), "costUsd": field_text(fields, "cost")}
    budget = {name: _number(text) for name, text in limits.items() if text}
    return {"action": BUDGET, "budget": budget} if budget else {"action": BUDGET}


def _number(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _budget_fields(budget: Budget | None) -> dict[str, str]:
    if budget is None:
        return {"tokens": "", "cost": ""}
    cost = None if budget.cost_micros is None else to_dollars(budget.cost_micros)
    return {"tokens": str(budget.tokens or ""), "cost": "" if cost is None else f"{cost:g}"}


def plan_edit_view(
    sheet: PlanDetail, refusal: FormError | None, moved: int | None, way: str
) -> PlanEditView:
    steps = {short_id(step.id): step for step in sheet.plan.steps}
    typed = refusal.typed if refusal else {}
    order = typed.get("order", "").split(",")
    ids = order if sorted(order) == sorted(steps) else [*steps]
    rows = [
        EditRow(
            id=row_id,
            order=steps[row_id].order,
            name=sheet.name_of(steps[row_id]),
            status=str(steps[row_id].status),
            is_movable=steps[row_id].status is StepStatus.PENDING,
            focus=way if steps[row_id].order == moved else "",
        )
        for row_id in ids
    ]
    return PlanEditView(
        rows=rows,
        is_modifiable=sheet.plan.status in MODIFIABLE,
        budget=_budget_fields(sheet.plan.budget),
        refusal=refusal,
        typed=typed,
    )


@dataclass(frozen=True, slots=True)
class PlanEditPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        if request.method != "POST":
            return await self._render(request)
        fields = await read_form(request)
        sheet, action = await self._read(request), field_text(fields, "action")
        arguments = modification_arguments(
            sheet.plan.id, fields, _modification(sheet, action, fields)
        )
        answer = await self.page_context.call_tool(request, "modify_plan", arguments)
        if answer.is_error:
            return await self._render(request, form_error(answer, action, fields))
        if action == ADD:
            return RedirectResponse(f"/plans/{sheet.plan.id}", HTTPStatus.SEE_OTHER)
        return RedirectResponse(_after(sheet, fields), HTTPStatus.SEE_OTHER)

    async def _read(self, request: Request) -> PlanDetail:
        ctx = await self.page_context.request_context(request)
        return await read_plan_detail(ctx, request.path_params["plan_id"], PlanInclude.NAMES)

    async def _render(self, request: Request, refusal: FormError | None = None) -> Response:
        sheet = await self._read(request)
        moved = query_param(request, "moved") or ""
        way = query_param(request, "way") or ""
        place = int(moved[:9]) if moved.isascii() and moved.isdecimal() else None
        return await self.page_context.render_page(
            request,
            "edit_plan",
            status_code=refusal.status if refusal else 200,
            view=plan_edit_view(sheet, refusal, place, way),
            plan=sheet.plan,
        )


def _modification(sheet: PlanDetail, action: str, fields: FormData) -> Modification:
    match action:
        case "add_steps":
            return add_steps_modification(fields)
        case "set_budget":
            return budget_modification(fields)
        case "reorder_steps":
            return reorder_modification(sheet, fields)
        case _:
            return {"action": action}


def _after(sheet: PlanDetail, fields: FormData) -> str:
    path = f"/plans/{sheet.plan.id}/edit"
    way, _, moved = field_text(fields, "move").partition(":")
    old = next((s.order for s in sheet.plan.steps if short_id(s.id) == moved), None)
    if old is None:
        return path
    order = max(1, old - 1) if way == "up" else min(len(sheet.plan.steps), old + 1)
    # The URL has no fragment, because browsers would then ignore autofocus.
    return f"{path}?{urlencode({'moved': order, 'way': way})}"
