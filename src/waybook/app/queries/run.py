"""Read models of a run: overview, detail page and progress report. Read-only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.app.queries.documents import DocumentListItem, order_documents
from waybook.app.queries.plan_map import plan_report
from waybook.app.request.locking import UnlockedRun, load_run
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.request_context import RequestContext
from waybook.dag.expansion.counts import StageCounts
from waybook.dag.progress.documents import AvailableDocument
from waybook.dag.progress.report import Report, report
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.json_values import Body, Json
from waybook.run.model import CompiledDag, Run
from waybook.run.status import RunState, awaiting_feedback, run_evidence, run_state
from waybook.store.driver.queries import Statement
from waybook.store.plans.load import PlanRequest
from waybook.store.runs import jobs, load

MAX_WORKERS = 500
MAX_HISTORY = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Holder of a job."""

    name: str
    stage: str
    step_key: str
    model: str
    attempt: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Audit event of a run."""

    seq: int
    at: datetime
    event: str
    actor: str
    session: str | None
    action: str | None
    #: The step it is about, else the stage, if any.
    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """Contents of the overview of a run."""

    run: Run
    compiled_dag: CompiledDag
    now: datetime
    input_text: Json
    report: Report
    #: Expected counts of each stage, as far as they can be known.
    expected: Mapping[str, StageCounts]
    workers: tuple[Worker, ...]
    history: tuple[RunEvent, ...]

    @property
    def is_closed(self) -> bool:
        return self.run.completed_at is not None

    @property
    def awaiting(self) -> str | None:
        """Return the stage that awaits feedback, if nothing else is in progress."""
        return awaiting_feedback(self.run, self.compiled_dag)

    @property
    def state(self) -> RunState:
        """Return the state of the run as a whole."""
        return run_state(self.run, self.compiled_dag)


async def read_run_overview(ctx: RequestContext, run_id: str) -> RunOverview:
    """Read a run, in one snapshot.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    run_id = id_or_nil(run_id)
    seen = await load_run(
        ctx,
        run_id,
        jobs.available_statement(run_id),
        *overview_statements(run_id, MAX_HISTORY),
    )
    return build_run_overview(seen, *seen.results)


def overview_statements(run_id: str, most_news: int) -> tuple[Statement, ...]:
    """Return the statements for the rest of an overview: the input, the workers, recent events."""
    return (
        load.brief_statement(run_id),
        jobs.workers_statement(run_id, MAX_WORKERS),
        load.recent_events_statement(run_id, most_news),
    )


def build_run_overview(
    seen: UnlockedRun,
    available: Sequence[Sequence[Any]],
    brief: Sequence[Sequence[Any]],
    workers: Sequence[Sequence[Any]],
    events: Sequence[Sequence[Any]],
) -> RunOverview:
    """Return the overview of a run from its related rows."""
    run, compiled_dag = seen.loaded.run, seen.compiled_dag
    models = {slug: stage.models for slug, stage in run.stages.items()}
    return RunOverview(
        run=run,
        compiled_dag=compiled_dag,
        now=seen.loaded.now,
        input_text=brief[0][0],
        report=run_report(run, compiled_dag, available),
        expected=structure_counts(valid_structure(compiled_dag.dag, compiled_dag.graphs), models),
        workers=tuple(_worker(row) for row in workers),
        history=tuple(_read_event(row) for row in reversed(events)),
    )


def _worker(row: Sequence[Any]) -> Worker:
    name, stage, step_key, model, attempt, since = row
    return Worker(
        name=name,
        stage=stage,
        step_key=step_key,
        model=model,
        attempt=attempt,
        since=since.astimezone(UTC),
    )


def _read_event(row: Sequence[Any]) -> RunEvent:
    seq, at, event, actor, session, action, step_key, stage = row
    return RunEvent(
        seq=seq,
        at=at.astimezone(UTC),
        event=event,
        actor=actor,
        session=session,
        action=action,
        subject=step_key or stage,
    )


MAX_FAILURES = 100
MAX_DETAIL_HISTORY = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """Job that is not retried automatically."""

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
    """Read all details of a run, in one snapshot.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    run_id = id_or_nil(run_id)
    seen = await load_run(
        ctx,
        run_id,
        jobs.readable_statement(run_id),
        *overview_statements(run_id, MAX_DETAIL_HISTORY),
        jobs.failures_statement(run_id, MAX_FAILURES),
    )
    readable, brief, workers, events, failures = seen.results
    available = [(stage, key, model, row_id) for row_id, stage, _, key, model, *_ in readable]
    _, created_at, created_by = brief[0]
    return RunDetail(
        overview=build_run_overview(seen, available, brief, workers, events),
        documents=order_documents(seen.compiled_dag, readable),
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


class RunReport(Report):
    """Report of a run with its usage."""

    usage: Body


async def load_report(
    ctx: RequestContext, *, run_id: str | None, plan_id: str | None = None
) -> Report:
    """Return the report of a run or of a plan, from one snapshot.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    if run_id is None:
        loaded, _ = await ctx.load_plan(PlanRequest(plan_id=id_or_nil(plan_id or "")))
        return plan_report(loaded.plan)
    run_id = id_or_nil(run_id)
    seen = await load_run(ctx, run_id, jobs.available_statement(run_id))
    run = seen.loaded.run
    base_report = run_report(run, seen.compiled_dag, seen.results[0])
    return RunReport(**base_report, usage=run.usage.as_reply())


def run_report(run: Run, compiled_dag: CompiledDag, rows: Sequence[Sequence[Any]]) -> Report:
    """Return the report of a run, given the rows of its readable documents."""
    available = [(slug, AvailableDocument(*fields)) for slug, *fields in rows]
    return report(
        valid_structure(compiled_dag.dag, compiled_dag.graphs), run_evidence(run, available)
    )
