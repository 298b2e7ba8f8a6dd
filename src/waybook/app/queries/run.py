"""A run for somebody who watches: its report, who works on what, what happened last. Reads only.

A run whole, for a page: where it stands, what failed and why, what can be read.
"""

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
    """Somebody who holds a job."""

    name: str
    stage: str
    step_key: str
    model: str
    attempt: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Something that happened to a run, as the audit has it."""

    seq: int
    at: datetime
    event: str
    actor: str
    session: str | None
    action: str | None
    #: The step it is about, else the stage, if it is about one.
    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOverview:
    """All that a picture of a run shows."""

    run: Run
    compiled_dag: CompiledDag
    now: datetime
    input_text: Json
    report: Report
    #: What each stage will come to, as far as that can be known.
    expected: Mapping[str, StageCounts]
    workers: tuple[Worker, ...]
    history: tuple[RunEvent, ...]

    @property
    def is_closed(self) -> bool:
        return self.run.completed_at is not None

    @property
    def awaiting(self) -> str | None:
        """The stage a person has to say something of, if nothing else goes on."""
        return awaiting_feedback(self.run, self.compiled_dag)

    @property
    def state(self) -> RunState:
        """Where the run stands as a whole."""
        return run_state(self.run, self.compiled_dag)


async def read_run_overview(ctx: RequestContext, run_id: str) -> RunOverview:
    """Look at a run, in one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
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
    """What finds the rest of a board: what was asked, who works, what happened last."""
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
    news: Sequence[Sequence[Any]],
) -> RunOverview:
    """The board of a run that was looked at, with what was found beside it."""
    run, chart = seen.loaded.run, seen.chart
    models = {slug: stage.models for slug, stage in run.stages.items()}
    return RunOverview(
        run=run,
        compiled_dag=chart,
        now=seen.loaded.now,
        input_text=brief[0][0],
        report=run_report(run, chart, available),
        expected=structure_counts(valid_structure(chart.dag, chart.graphs), models),
        workers=tuple(_worker(row) for row in workers),
        history=tuple(_news(row) for row in reversed(news)),
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


def _news(row: Sequence[Any]) -> RunEvent:
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
        jobs.readable_statement(run_id),
        *overview_statements(run_id, MAX_DETAIL_HISTORY),
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


class RunReport(Report):
    """What a run took stands beside where it stands."""

    usage: Body


async def load_report(
    ctx: RequestContext, *, run_id: str | None, plan_id: str | None = None
) -> Report:
    """The report of a run or of a plan, from one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    if run_id is None:
        loaded, _ = await ctx.load_plan(PlanRequest(plan_id=id_or_nil(plan_id or "")))
        return plan_report(loaded.plan)
    run_id = id_or_nil(run_id)
    seen = await load_run(ctx, run_id, jobs.available_statement(run_id))
    run = seen.loaded.run
    found = run_report(run, seen.chart, seen.results[0])
    return RunReport(**found, usage=run.usage.as_reply())


def run_report(run: Run, compiled_dag: CompiledDag, rows: Sequence[Sequence[Any]]) -> Report:
    """The report of a run of ours, given the rows of what people can read of it."""
    available = [(slug, AvailableDocument(*found)) for slug, *found in rows]
    return report(
        valid_structure(compiled_dag.dag, compiled_dag.graphs), run_evidence(run, available)
    )
