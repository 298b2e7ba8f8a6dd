"""Timelines of plans and runs as CSV: one line for each interval of work."""

import csv
from collections.abc import Iterable
from datetime import datetime
from io import StringIO
from typing import Final

from waybook.app.queries.runs.run_export import RunRows
from waybook.app.queries.timeline import spans_of
from waybook.app.request.access import load_plan
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.json_values import Json, rfc3339
from waybook.store.plans import details
from waybook.store.plans.load import PlanRequest

#: Characters with which a formula begins in a spreadsheet.
FORMULA_PREFIXES: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
PLAN_COLUMNS: Final = ("step", "title", "type", "status", "start", "end", "seconds", "user")
RUN_COLUMNS: Final = (
    *("stage", "step", "job_type", "model", "status", "attempt", "start", "end", "seconds"),
    *("user", "error"),
)


def escape_cell(text: str) -> str:
    """Escape a CSV cell so that no spreadsheet interprets it as a formula.

    >>> escape_cell("=1+1"), escape_cell("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if text.startswith(FORMULA_PREFIXES) else text


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    out = StringIO()
    csv.writer(out).writerows([escape_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


async def plan_timeline(ctx: RequestContext, plan_id: str) -> str:
    """Return a CSV with the times when each step was worked on or waited for a person."""
    plan_id = id_or_nil(plan_id)
    statement = details.status_changes_statement(plan_id, None)
    loaded, (rows,) = await load_plan(ctx, PlanRequest(plan_id=plan_id), statement)
    moves = details.read_status_changes(rows)
    steps = {str(step.id): step for step in loaded.plan.steps}
    users = {(move.step_id, move.at): move.session or move.actor for move in moves}
    spans = [
        (span, steps[step_id])
        for step_id, of_step in spans_of(moves, loaded.now).items()
        if step_id in steps
        for span in of_step
    ]
    lines = [
        (
            *(str(step.order), step.title or "", str(step.type), str(span.status)),
            *_interval(span.start, span.end),
            users.get((step.id, span.start), ""),
        )
        for span, step in sorted(spans, key=lambda item: (item[0].start, item[1].order))
    ]
    return csv_text([PLAN_COLUMNS, *lines])


def run_timeline(run_rows: RunRows) -> str:
    """Return a CSV with the times when each job was worked on."""
    lines = []
    for job in run_rows.rows.get("job", {}).values():
        start, end = _read_time(job["started_at"]), _read_time(job["completed_at"])
        named = ("stage_slug", "step_key", "job_type", "model", "status", "attempt")
        cells = tuple(str(job[name]) for name in named)
        ended = end or (run_rows.now if start and job["status"] == "processing" else None)
        user = str(job["held_session"] or job["held_by"] or "")
        lines.append((*cells, *_interval(start, ended), user, str(job["error"] or "")))
    start_column = RUN_COLUMNS.index("start")
    lines.sort(key=lambda line: (not line[start_column], line[start_column], line[:4]))
    return csv_text([RUN_COLUMNS, *lines])


def _interval(start: datetime | None, end: datetime | None) -> tuple[str, str, str]:
    if start is None:
        return "", "", ""
    if end is None:
        return rfc3339(start), "", ""
    return rfc3339(start), rfc3339(end), f"{(end - start).total_seconds():.3f}"


def _read_time(value: Json) -> datetime | None:
    return datetime.fromisoformat(str(value)) if value else None
