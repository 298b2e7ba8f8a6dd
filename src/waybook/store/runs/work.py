"""Queries for the work in a run: jobs, attempts, usage, and versions of documents."""

from collections.abc import Iterable, Sequence
from typing import Any

from waybook.core.usage import Totals
from waybook.store.driver.queries import AsJson, Statement, load
from waybook.store.runs.load import ReadableRow

MAX_DOCUMENTS = 8


_JOB_COLUMNS = (
    "usage id stage step_key job_type model lineage reviewer status attempt held_by held_session "
    "ready_at started_at completed_at error is_ready is_silent total"
)
SQL = load(
    "runs/work",
    run_jobs=(Totals, _JOB_COLUMNS),
    document_versions=ReadableRow,
    step_documents=ReadableRow,
)


def jobs_statement(
    run_id: str, *, most: int, statuses: Sequence[str] = (), **more: str | float | None
) -> Statement:
    filters = {"job_id": None, "stage": None, "step_key": None, "model": None, **more}
    named = AsJson([*statuses] or None)
    return SQL["run_jobs"](run_id=run_id, most=most, statuses=named, **filters)


def read_usage(rows: Iterable[tuple[int, ...]]) -> dict[int, Totals]:
    return {attempt: Totals(*sums) for attempt, *sums in rows}


def read_model_usage(rows: Iterable[tuple[Any, ...]]) -> tuple[tuple[str, Totals], ...]:
    return tuple((model or "", Totals(*sums)) for model, *sums in rows)


def stage_documents_statement(run_id: str, stage: str) -> Statement:
    return SQL["stage_documents"](run_id=run_id, stage=stage, most=MAX_DOCUMENTS)
