"""A run for somebody who watches: its report, who works on what, what happened last. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.dag.counts import StageCounts
from waybook.dag.report import Report
from waybook.dag.structure import structure_counts, valid_structure
from waybook.record.moment import Json
from waybook.run.model import CompiledDag, Run
from waybook.run.standing import RunState, awaiting_feedback, run_state
from waybook.store import documents, jobs, runs
from waybook.store.sql import Statement
from waybook.usecases.call import RequestContext, id_or_nil
from waybook.usecases.get_run_progress import run_report
from waybook.usecases.run_call import UnlockedRun, load_run

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
        documents.available_statement(run_id),
        *overview_statements(run_id, MAX_HISTORY),
    )
    return build_run_overview(seen, *seen.results)


def overview_statements(run_id: str, most_news: int) -> tuple[Statement, ...]:
    """What finds the rest of a board: what was asked, who works, what happened last."""
    return (
        runs.brief_statement(run_id),
        jobs.workers_statement(run_id, MAX_WORKERS),
        runs.recent_events_statement(run_id, most_news),
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
