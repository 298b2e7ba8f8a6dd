"""A run whole, for a page: where it stands, what failed and why, what can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.store import documents, jobs
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.read_documents import DocumentListItem, order_documents
from waybook.usecases.run_call import load_run
from waybook.usecases.watch_run import RunOverview, build_run_overview, overview_statements

MAX_FAILURES = 100
MAX_HISTORY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """A job that will not be tried again by itself."""

    job_id: str
    stage: str
    step_key: str
    job_type: str
    model: str
    attempt: int
    error: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail:
    overview: RunOverview
    documents: list[DocumentListItem]
    failures: tuple[FailedJob, ...]
    created_at: datetime
    created_by: str


async def read_run_detail(ctx: RequestContext, run_id: str) -> RunDetail:
    """Look at all of a run, in one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    run_id = id_or_nil(run_id)
    seen = await load_run(
        ctx,
        run_id,
        documents.readable_statement(run_id),
        *overview_statements(run_id, MAX_HISTORY),
        jobs.failures_statement(run_id, MAX_FAILURES),
    )
    readable, brief, workers, news, failures = seen.results
    available = [(stage, key, model, row_id) for row_id, stage, _, key, model, *_ in readable]
    _, created_at, created_by = brief[0]
    return RunDetail(
        overview=build_run_overview(seen, available, brief, workers, news),
        documents=order_documents(seen.chart, readable),
        failures=tuple(_failure(row) for row in failures),
        created_at=created_at.astimezone(UTC),
        created_by=created_by,
    )


def _failure(row: Sequence[Any]) -> FailedJob:
    job_id, stage, step_key, job_type, model, attempt, error, at = row
    return FailedJob(
        job_id=job_id,
        stage=stage,
        step_key=step_key,
        job_type=job_type,
        model=model,
        attempt=attempt,
        error=error or "",
        at=at.astimezone(UTC),
    )
