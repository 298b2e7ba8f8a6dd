"""A run for somebody who watches: its report, who works on what, what happened last. Reads only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from waybook.dag.counts import StageCounts
from waybook.dag.report import Report
from waybook.dag.structure import counts_of, sound_structure
from waybook.record.moment import Json
from waybook.run.model import Chart, Run
from waybook.run.standing import RunState, awaiting_feedback, run_state
from waybook.store import documents, jobs, runs
from waybook.store.sql import Statement
from waybook.usecases.call import Call, known
from waybook.usecases.get_run_progress import report_on
from waybook.usecases.run_call import SeenRun, look_at_run

MOST_WORKERS = 500
MOST_NEWS = 5


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
class News:
    """Something that happened to a run, as the audit has it."""

    seq: int
    at: datetime
    event: str
    actor: str
    session: str | None
    action: str | None
    #: The step it is about, else the stage, if it is about one.
    about: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBoard:
    """All that a picture of a run shows."""

    run: Run
    chart: Chart
    now: datetime
    asked: Json
    report: Report
    #: What each stage will come to, as far as that can be known.
    expected: Mapping[str, StageCounts]
    workers: tuple[Worker, ...]
    news: tuple[News, ...]

    @property
    def over(self) -> bool:
        return self.run.completed_at is not None

    @property
    def awaiting(self) -> str | None:
        """The stage a person has to say something of, if nothing else goes on."""
        return awaiting_feedback(self.run, self.chart)

    @property
    def state(self) -> RunState:
        """Where the run stands as a whole."""
        return run_state(self.run, self.chart)


async def watch_run(call: Call, run_id: str) -> RunBoard:
    """Look at a run, in one snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    run_id = known(run_id)
    seen = await look_at_run(
        call,
        run_id,
        documents.available_statement(run_id),
        *beside(run_id, MOST_NEWS),
    )
    return board_of(seen, *seen.found)


def beside(run_id: str, most_news: int) -> tuple[Statement, ...]:
    """What finds the rest of a board: what was asked, who works, what happened last."""
    return (
        runs.brief_statement(run_id),
        jobs.workers_statement(run_id, MOST_WORKERS),
        runs.news_statement(run_id, most_news),
    )


def board_of(
    seen: SeenRun,
    available: Sequence[Sequence[Any]],
    brief: Sequence[Sequence[Any]],
    workers: Sequence[Sequence[Any]],
    news: Sequence[Sequence[Any]],
) -> RunBoard:
    """The board of a run that was looked at, with what was found beside it."""
    run, chart = seen.loaded.run, seen.chart
    models = {slug: stage.models for slug, stage in run.stages.items()}
    return RunBoard(
        run=run,
        chart=chart,
        now=seen.loaded.now,
        asked=brief[0][0],
        report=report_on(run, chart, available),
        expected=counts_of(sound_structure(chart.dag, chart.graphs), models),
        workers=tuple(_worker(row) for row in workers),
        news=tuple(_news(row) for row in reversed(news)),
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


def _news(row: Sequence[Any]) -> News:
    seq, at, event, actor, session, action, step_key, stage = row
    return News(
        seq=seq,
        at=at.astimezone(UTC),
        event=event,
        actor=actor,
        session=session,
        action=action,
        about=step_key or stage,
    )
