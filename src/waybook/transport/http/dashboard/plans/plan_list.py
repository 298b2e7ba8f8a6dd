"""Page with the list of plans and its filters."""

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.plans.plan_list import (
    PlanFilter,
    PlanOrder,
    PlanPage,
    plan_summaries,
)
from waybook.core.short_ids import short_id
from waybook.errors import InvalidInput
from waybook.plan.model import OPEN_STATES, PlanState
from waybook.transport.http.dashboard.page import PageContext
from waybook.transport.mcp.prompts import RESUME_PLAN

OPEN, ALL = "open", "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFilter:
    name: str
    count: str
    address: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanListQuery:
    state: str
    text: str
    mine: bool
    before: str | None

    def address(self, **other: object) -> str:
        params = {
            "state": None if self.state == OPEN else self.state,
            "q": self.text or None,
            "mine": "1" if self.mine else None,
            "before": self.before,
            **other,
        }
        query = urlencode({name: value for name, value in params.items() if value is not None})
        return f"/plans?{query}" if query else "/plans"

    @property
    def filtered(self) -> bool:
        return bool(self.text or self.mine or self.before or self.state not in {OPEN, ALL})


@dataclass(frozen=True, slots=True)
class PlansPage:
    page_context: PageContext

    async def __call__(self, request: Request) -> Response:
        call, query = (
            await self.page_context.request_context(request),
            query_from_request(request.query_params),
        )
        page = await plan_summaries(call, filter_of(query, call.caller.user))
        return await self.page_context.render_page(
            request,
            "plans",
            filters=query,
            results=page,
            choices=state_filters(query, page),
            older=query.address(before=page.last.id) if page.last else None,
            resume=resume_prompt,
            mcp=mcp_url(request),
            needs_token=call.caller.credential is not None,
        )


def query_from_request(query: QueryParams) -> PlanListQuery:
    state = query.get("state") or OPEN
    if state not in {OPEN, ALL, *PlanState}:
        raise InvalidInput(f"“{state[:40]}” is not a state of plans", argument="state")
    return PlanListQuery(
        state=state,
        text=query.get("q", "").strip(),
        mine="mine" in query,
        before=query.get("before") or None,
    )


def filter_of(query: PlanListQuery, user: str) -> PlanFilter:
    return PlanFilter(
        order=PlanOrder.CREATION,
        state=None if query.state in {OPEN, ALL} else PlanState(query.state),
        all=query.state == ALL,
        text=query.text,
        creator=user if query.mine else None,
        before=query.before,
    )


def state_filters(query: PlanListQuery, page: PlanPage) -> list[StateFilter]:
    counted: dict[str, int] = {OPEN: page.open, ALL: page.total}
    counted |= {state: page.counts[state] for state in PlanState if page.counts.get(state)}
    if query.state not in counted:
        counted[query.state] = 0
    return [
        StateFilter(
            name=name,
            count=f"{count:,}" + ("+" if page.is_minimum(*_states(name)) else ""),
            address=query.address(state=None if name == OPEN else name, before=None),
            chosen=name == query.state,
        )
        for name, count in counted.items()
    ]


def mcp_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers['host']}/mcp"


def resume_prompt(plan_id: str) -> str:
    return RESUME_PLAN.text.format(planId=short_id(plan_id)).strip()


def _states(name: str) -> list[PlanState]:
    if name == OPEN:
        return [*OPEN_STATES]
    return [state for state in PlanState if name in {ALL, state}]
