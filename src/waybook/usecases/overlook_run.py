"""A run whole, for a page: where it stands, what failed and why, what can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.store import documents, jobs
from waybook.usecases.call import Call, known
from waybook.usecases.read_documents import Listed, in_order
from waybook.usecases.run_call import look_at_run
from waybook.usecases.watch_run import RunBoard, beside, board_of

MOST_FAILURES = 100
MOST_NEWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
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
class RunWhole:
    board: RunBoard
    documents: list[Listed]
    failures: tuple[Failure, ...]
    created_at: datetime
    created_by: str


async def overlook_run(call: Call, run_id: str) -> RunWhole:
    """Look at all of a run, in one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    run_id = known(run_id)
    seen = await look_at_run(
        call,
        run_id,
        documents.readable_statement(run_id),
        *beside(run_id, MOST_NEWS),
        jobs.failures_statement(run_id, MOST_FAILURES),
    )
    readable, brief, workers, news, failures = seen.found
    available = [(stage, key, model, row_id) for row_id, stage, _, key, model, *_ in readable]
    _, created_at, created_by = brief[0]
    return RunWhole(
        board=board_of(seen, available, brief, workers, news),
        documents=in_order(seen.chart, readable),
        failures=tuple(_failure(row) for row in failures),
        created_at=created_at.astimezone(UTC),
        created_by=created_by,
    )


def _failure(row: Sequence[Any]) -> Failure:
    job_id, stage, step_key, job_type, model, attempt, error, at = row
    return Failure(
        job_id=job_id,
        stage=stage,
        step_key=step_key,
        job_type=job_type,
        model=model,
        attempt=attempt,
        error=error or "",
        at=at.astimezone(UTC),
    )
