"""Read models of a run: overview, detail page and progress report. Read-only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

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
from waybook.store.runs.rows import (
    AvailableRow,
    FailedJobRow,
    ReadableRow,
    RunBriefRow,
    RunEventRow,
    WorkerRow,
)

MAX_WORKERS = 500
MAX_HISTORY = 5


RunEvent: TypeAlias = RunEventRow
FailedJob: TypeAlias = FailedJobRow


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
    workers: tuple[WorkerRow, ...]
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
    available, brief, workers, events = seen.results
    return build_run_overview(seen, available, brief[0], workers, events)


def overview_statements(run_id: str, most_news: int) -> tuple[Statement, ...]:
    """Return the statements for the rest of an overview: the input, the workers, recent events."""
    return (
        load.brief_statement(run_id),
        jobs.workers_statement(run_id, MAX_WORKERS),
        load.recent_events_statement(run_id, most_news),
    )


def build_run_overview(
    seen: UnlockedRun,
    available: Iterable[AvailableRow | ReadableRow],
    brief: RunBriefRow,
    workers: Sequence[WorkerRow],
    events: Sequence[RunEventRow],
) -> RunOverview:
    """Return the overview of a run from its related rows."""
    run, compiled_dag = seen.loaded.run, seen.compiled_dag
    models = {slug: stage.models for slug, stage in run.stages.items()}
    return RunOverview(
        run=run,
        compiled_dag=compiled_dag,
        now=seen.loaded.now,
        input_text=brief.input,
        report=run_report(run, compiled_dag, available),
        expected=structure_counts(valid_structure(compiled_dag.dag, compiled_dag.graphs), models),
        workers=jobs.read_workers(workers),
        history=load.read_events(events),
    )


MAX_FAILURES = 100
MAX_DETAIL_HISTORY = 12


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
    run_brief: RunBriefRow = brief[0]
    return RunDetail(
        overview=build_run_overview(seen, readable, run_brief, workers, events),
        documents=order_documents(seen.compiled_dag, readable),
        failures=jobs.read_failures(failures),
        created_at=run_brief.created_at.astimezone(UTC),
        created_by=run_brief.created_by,
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


def run_report(
    run: Run, compiled_dag: CompiledDag, rows: Iterable[AvailableRow | ReadableRow]
) -> Report:
    """Return the report of a run, given the rows of its readable documents."""
    available = [
        (row.stage, AvailableDocument(row.document_key, row.model, row.resource_id)) for row in rows
    ]
    return report(
        valid_structure(compiled_dag.dag, compiled_dag.graphs), run_evidence(run, available)
    )
