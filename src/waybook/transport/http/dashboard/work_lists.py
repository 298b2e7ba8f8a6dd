"""Lists of plans and runs with their filters."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.queries.work_list import (
    OPEN,
    ListOrder,
    PlanFilter,
    PlanPage,
    RunFilter,
    list_runs,
    plan_summaries,
)
from waybook.dag.model import RunState
from waybook.errors import InvalidInput
from waybook.plan.model import OPEN_STATES, PlanState
from waybook.transport.http.dashboard.page import PageRequest
from waybook.transport.mcp.prompts import RESUME_PLAN

ALL: Final = "all"
_RUN_STATES: Final = (OPEN, *map(str, RunState))


async def plan_list(page: PageRequest) -> Response:
    ctx, params = await page.context(), page.request.query_params
    state = params.get("state") or OPEN
    if state not in {OPEN, ALL, *PlanState}:
        raise InvalidInput(f"“{state[:40]}” is not a state of plans", argument="state")
    text, mine = params.get("q", "").strip(), "mine" in params
    before = params.get("before") or None
    results = await plan_summaries(
        ctx,
        PlanFilter(
            order=ListOrder.CREATION,
            state=None if state in {OPEN, ALL} else PlanState(state),
            all=state == ALL,
            text=text,
            creator=ctx.caller.user if mine else None,
            before=before,
        ),
    )
    return await page.render(
        "plans",
        filters={"state": state, "text": text, "mine": mine, "before": before},
        filtered=bool(text or mine or before or state not in {OPEN, ALL}),
        url_with=page.url_with,
        results=results,
        counts=_state_counts(state, results),
        older=page.url_with(before=results.last.id) if results.last else None,
        resume=lambda plan_id: RESUME_PLAN.text.format(planId=plan_id).strip(),
        mcp=mcp_url(page.request),
        needs_token=ctx.caller.credential is not None,
    )


def _state_counts(chosen: str, page: PlanPage) -> dict[str, str]:
    """Return the number of plans by state. The chosen state is listed even if it has none."""
    counts: dict[str, int] = {OPEN: page.open, ALL: page.total}
    counts |= {state: page.counts[state] for state in PlanState if page.counts.get(state)}
    counts.setdefault(chosen, 0)
    texts = {}
    for name, count in counts.items():
        states = [s for s in PlanState if name in {ALL, s} or (name == OPEN and s in OPEN_STATES)]
        texts[name] = f"{count:,}" + ("+" if page.is_minimum(*states) else "")
    return texts


def mcp_url(request: Request) -> str:
    return f"{request.url.scheme}://{request.headers['host']}/mcp"


async def run_list(page: PageRequest) -> Response:
    state = page.query("state")
    filters = RunFilter(
        state=state if state in _RUN_STATES else None,
        dag=page.query("dag"),
        text=page.query("q") or "",
        before=page.query("before"),
        order=ListOrder.CREATION,
    )
    results = await list_runs(await page.context(), filters)
    return await page.render(
        "runs",
        runs=results.runs,
        states=_RUN_STATES,
        filters=filters,
        first=filters.before is None,
        further=page.url_with(before=results.runs[-1].id) if results.more else None,
        newest=page.url_with(before=None),
    )
