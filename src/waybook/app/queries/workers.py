"""Workers that report, and caps on their work, for pages, commands and replies."""

from collections.abc import Iterable

from waybook.accounts.caps import Cap
from waybook.app.request.request_context import RequestContext
from waybook.core.agent_names import name_of
from waybook.json_values import Body, Json, fields_of, format_time, non_empty
from waybook.store.work import SQL, PausedCap, WorkerRow, workers_statement

__all__ = ["PausedCap", "WorkerRow"]

MAX_CAPS = 100


async def list_paused_caps(ctx: RequestContext, *, most: int = MAX_CAPS) -> list[PausedCap]:
    (rows,) = await ctx.read(SQL["paused_caps"](most=most))
    return [*rows]


def cap_view(cap: Cap) -> Body:
    return {
        "capId": cap.id,
        "scope": cap.scope,
        "of": cap.subject,
        "period": cap.period,
        "unit": cap.unit,
        "limit": cap.shown(cap.most),
        "used": cap.shown(cap.spent),
        "reserved": cap.shown(cap.reserved),
    }


def worker_views(workers: Iterable[WorkerRow]) -> list[Json] | None:
    return [worker_view(worker) for worker in workers] or None


def worker_view(worker: WorkerRow) -> Body:
    """Return what a plan or run shows of a worker: who it is, and when it goes on."""
    return non_empty(
        agent=worker.agent,
        state=worker.state,
        resumesAt=format_time(worker.until),
        reason=worker.reason,
    )


async def workers_view(ctx: RequestContext) -> Body:
    workers, caps = await ctx.read(
        workers_statement(),
        SQL["caps"](most=MAX_CAPS),
    )
    shown: list[Json] = [
        {
            **worker_view(worker),
            **fields_of(worker, "until session host plan_id run_id step_id job_id"),
            **fields_of(worker, "started_at reported_at"),
            "user": worker.name,
            "name": worker.work or name_of(None, worker.session, None),
            "lines": [*(worker.lines or "").splitlines()],
        }
        for worker in workers
    ]
    limits: list[Json] = [
        {**cap_view(cap), "paused": cap.paused_at is not None, "ended": cap.ended_at is not None}
        for cap in caps
    ]
    return {"workers": shown, "caps": limits}
