"""Queries for the overview page.

The page lists work that needs a person, is in trouble, is running, or has finished. It also says
what has happened since the last visit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from waybook.app.queries.agent_names import agent_name
from waybook.app.queries.work_list import EXCERPT_LENGTH, CurrentStep, load_definitions
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind
from waybook.core.durations import format_duration
from waybook.core.shown import Shown, shown_group, shown_plan
from waybook.dag.model import RunState
from waybook.plan.model import MODIFIABLE, PlanStatus, StepStatus
from waybook.plan.progress import Progress
from waybook.run.model import CompiledDag
from waybook.store.agents import AgentKey, held_statements
from waybook.store.driver.queries import Row
from waybook.store.overview import (
    MAX_COUNTED,
    LastLook,
    TroubleKind,
    activity_statements,
    max_read,
    max_troubled,
    overview_statements,
)

__all__ = ["LastLook"]

_LABEL_LENGTH = 40


class WaitingWork(NamedTuple):
    """An open review, or a completed stage that awaits feedback."""

    row: Row
    stage_name: str | None


class BlockedStep(NamedTuple):
    #: Time since which a stalled step is inactive. None if the step failed.
    inactive_since: str | None
    id: str
    order: int
    title: str
    #: User and session.
    holder: Sequence[str | None]
    fail_reason: str | None

    @property
    def label(self) -> str:
        title = self.title.strip()
        short = title if len(title) <= _LABEL_LENGTH else f"{title[: _LABEL_LENGTH - 1].rstrip()}…"
        return f"{self.order} ({short})"


class TroubledPlan(NamedTuple):
    """A plan that failed, is stalled, or has failed steps."""

    row: Row
    status: PlanStatus
    now: datetime
    failed_steps: Sequence[BlockedStep]
    stalled_step: BlockedStep | None

    @property
    def shown(self) -> Shown:
        return shown_plan(self.status, is_held=self.row.goes_on)

    @property
    def cause(self) -> str:
        """Return the error that entries of the page are grouped by, or an empty text."""
        is_retryable = self.retryable_steps and not self.stalled_step
        return (self.failed_steps[-1].fail_reason or "") if is_retryable else ""

    @property
    def facts(self) -> Facts:
        failed, silent = len(self.failed_steps), int(self.stalled_step is not None)
        return Facts(Kind.PLAN, self.shown, failed=failed, silent=silent)

    @property
    def reason(self) -> str:
        if self.status is PlanStatus.FAILED:
            why = self.row.fail_reason or "no reason stored"
            return f"Plan failed{_by_user(self.row.last_change)}: {why}"
        reasons, step, failed = [], self.stalled_step, self.failed_steps
        if step and step.inactive_since:
            gap = format_duration(self.now - datetime.fromisoformat(step.inactive_since))
            who = agent_name(*step.holder)
            silence = f"No heartbeat from {who}" if who else "No agent"
            reasons.append(f"{silence} for {gap} on step {step.label}")
        if failed:
            last = failed[-1]
            first = f"{len(failed)} steps failed, last step" if len(failed) > 1 else "Failed: step"
            who = f", held by {name}" if (name := agent_name(*last.holder)) else ""
            why = last.fail_reason or "no reason stored"
            reasons.append(f"{first} {last.label}{who}: {why}")
        return "; ".join(reasons) or "Stalled: no step has a holder"

    @property
    def retryable_steps(self) -> Sequence[BlockedStep]:
        if self.status not in MODIFIABLE:
            return ()
        return (self.stalled_step,) if self.stalled_step else self.failed_steps


class RunFailure(NamedTuple):
    """Failed jobs of one stage of a run: their number, and the job that failed last."""

    stage: str
    step_key: str
    model: str
    attempt: int
    error: str
    holder: Sequence[str | None]
    at: str
    out_of_retries: bool
    jobs: int

    @property
    def reason(self) -> str:
        first = f"{self.jobs} jobs failed, last" if self.jobs > 1 else "Job failed"
        retries = f", out of retries after attempt {self.attempt}" if self.out_of_retries else ""
        who = f", held by {name}" if (name := agent_name(*self.holder)) else ""
        error = self.error or "no reason stored"
        return f"{first}: {self.step_key} ({self.model}{who}{retries}): {error}"


class TroubledRun(NamedTuple):
    """An open run with permanently failed jobs."""

    row: Row
    failures: Sequence[RunFailure]

    @property
    def shown(self) -> Shown:
        return shown_group(RunState.FAILED, goes_on=self.row.goes_on)

    @property
    def cause(self) -> str:
        errors = {failure.error for failure in self.failures}
        return errors.pop() if len(errors) == 1 else ""

    @property
    def facts(self) -> Facts:
        return Facts(Kind.RUN, self.shown, failed=len(self.failures))

    @property
    def reason(self) -> str:
        if not self.failures:
            return "A step failed"
        last = max(self.failures, key=lambda failure: failure.at)
        return last._replace(jobs=sum(failure.jobs for failure in self.failures)).reason


class RunningWork(NamedTuple):
    """An open plan with its progress, or an open run with its current stage."""

    row: Row
    progress: Progress | None = None
    current_step: CurrentStep | None = None
    #: Users and sessions.
    holders: Sequence[Sequence[str | None]] = ()
    stage_name: str | None = None
    steps_total: int = 0

    @property
    def shown(self) -> Shown:
        if self.progress is None:
            return Shown.RUNNING
        is_held, has_steps = bool(self.holders), self.progress.total > 0
        return shown_plan(self.row.status, is_held=is_held, has_steps=has_steps)

    @property
    def facts(self) -> Facts:
        if self.progress is None:
            return Facts(Kind.RUN, self.shown)
        total, failed = self.progress.total, self.progress.failed
        return Facts(Kind.PLAN, self.shown, steps=total, failed=failed)


class SectionTotal(NamedTuple):
    total: int
    is_minimum: bool


class Hour(NamedTuple):
    start: datetime
    done: int = 0
    failed: int = 0
    cost_micros: int = 0


class Overview(NamedTuple):
    needs: Sequence[WaitingWork]
    trouble: Sequence[TroubledPlan | TroubledRun]
    running: Sequence[RunningWork]
    finished: Sequence[Mapping[str, Any]]
    #: Number of entries of the sections `in_trouble`, `running` and `finished`.
    totals: Mapping[str, SectionTotal]
    hours: Sequence[Hour]
    #: What each agent at work holds; the agent that began last is first.
    at_work: Mapping[AgentKey, Sequence[Row]]
    has_work: bool
    since: datetime
    now: datetime


def _by_user(user: str | None) -> str:
    return f" by {user}" if user else ""


_SUMMARY_LENGTH = 200
MAX_ENTRIES = 8
_HOURS = 24

STATUS_BY_INITIAL = {status.value[0]: status for status in StepStatus}
Dags = dict[tuple[str, int], CompiledDag]


async def read_overview(
    ctx: RequestContext, look: LastLook, *, most: int = MAX_ENTRIES
) -> Overview:
    patience = ctx.services.review_reminder
    waiting, troubled, running, finished, counted, hours, *held = await ctx.read(
        *overview_statements(
            look,
            most=most,
            wide=EXCERPT_LENGTH,
            long=_SUMMARY_LENGTH,
            patience=patience.total_seconds() if patience else None,
        ),
        *held_statements(),
    )
    totals = counted[0]
    runs = [row for row in waiting if row.stages is not None]
    runs += [row for row in running if row.status is None]
    keys = {(row.dag_slug, row.dag_version) for row in runs}
    dags = await load_definitions(ctx, keys)
    finished_work = []
    for row in finished:
        note = f"{_by_user(row.canceled_by).strip()}: {row.reason}" if row.canceled else ""
        status = Shown.CANCELED if row.canceled else Shown.DONE
        progress = _progress(row.statuses)
        finished_work.append({"row": row, "progress": progress, "status": status, "note": note})
    return Overview(
        needs=[*_waiting(waiting, dags)],
        trouble=[_troubled(row, totals.now) for row in troubled],
        running=[_running(row, dags) for row in running],
        finished=finished_work,
        totals=_section_totals(totals, troubled[0].kinds if troubled else "", most),
        hours=_last_hours(hours, totals.now),
        at_work=_at_work(row for rows in held for row in rows),
        has_work=totals.has_work,
        since=totals.since,
        now=totals.now,
    )


def _last_hours(rows: Sequence[Row], now: datetime) -> list[Hour]:
    """Return the last 24 hours by the clock, also those without work."""
    last = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    counts = {row.hour: (row.done, row.failed, row.cost_micros) for row in rows}
    starts = (last - timedelta(hours=number) for number in reversed(range(_HOURS)))
    return [Hour(start, *counts.get(f"{start:%Y-%m-%dT%H}", ())) for start in starts]


def _at_work(rows: Iterable[Row]) -> dict[AgentKey, list[Row]]:
    agents: dict[AgentKey, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.since, reverse=True):
        agents.setdefault(AgentKey(row.held_by, row.session), []).append(row)
    return agents


def _section_totals(counted: Row, kinds: str, most: int) -> dict[str, SectionTotal]:
    """Return the size of each section. Work in trouble is not counted in other sections."""
    open_plans, runs = kinds.count(TroubleKind.OPEN), kinds.count(TroubleKind.RUN)
    failed = kinds.count(TroubleKind.FAILED)
    highest = max(
        kinds.count(TroubleKind.STALLED),
        open_plans,
        failed + kinds.count(TroubleKind.FAILED_EARLIER),
        runs,
    )
    running = counted.open - counted.awaiting - open_plans - runs
    finished = counted.finished - failed
    return {
        "in_trouble": SectionTotal(len(kinds), highest >= max_troubled(most)),
        "running": _total(running, is_minimum=counted.open >= max_read(most)),
        "finished": _total(finished, is_minimum=counted.finished >= max_read(most)),
    }


def _total(total: int, *, is_minimum: bool) -> SectionTotal:
    return SectionTotal(max(0, min(total, MAX_COUNTED)), is_minimum or total > MAX_COUNTED)


def _waiting(rows: Sequence[Row], dags: Dags) -> Iterator[WaitingWork]:
    """Yield the open reviews, and the runs with a stage that awaits feedback."""
    for row in rows:
        if row.stages is None:
            yield WaitingWork(row, None)
            continue
        dag = dags[row.dag_slug, row.dag_version]
        waiting = (s for s in dag.order if s in row.stages and s in dag.continued_stages)
        if slug := next(waiting, None):
            yield WaitingWork(row, dag.stage_name(slug))


def _troubled(row: Row, now: datetime) -> TroubledPlan | TroubledRun:
    if row.status is None:
        return TroubledRun(row, [RunFailure(*failure) for failure in row.failures or ()])
    steps = [BlockedStep(*step) for step in row.steps or ()]
    return TroubledPlan(
        row,
        PlanStatus(row.status),
        now,
        [step for step in steps if step.inactive_since is None],
        next((step for step in reversed(steps) if step.inactive_since is not None), None),
    )


def _running(row: Row, dags: Dags) -> RunningWork:
    if row.status is None:
        dag, started = dags[row.dag_slug, row.dag_version], row.stages or ()
        # If several stages are in progress, the last of them is the current stage.
        stages = [dag.stage_name(slug) for slug in dag.order if slug in started]
        stage_name = stages[-1] if stages else None
        holders = row.holders or ()
        return RunningWork(row, None, None, holders, stage_name, dag.steps_total)
    progress = _progress(row.statuses or "")
    if not row.active_steps:
        return RunningWork(row, progress)
    # Sort steps that await input before steps in progress.
    steps = sorted(row.active_steps)
    holders = [holder for is_held, _, _, holder in steps if is_held and holder[0]]
    _, order, title, _ = steps[0]
    return RunningWork(row, progress, CurrentStep(order, title), holders)


def _progress(initials: str | None) -> Progress | None:
    if initials is None:
        return None
    return Progress({STATUS_BY_INITIAL[i]: initials.count(i) for i in dict.fromkeys(initials)})


async def read_away_summary(ctx: RequestContext, since: datetime) -> dict[str, Any] | None:
    (counts,), decisions = await ctx.read(*activity_statements(since))
    done = counts.steps + counts.jobs + counts.failures + counts.cost_micros
    if not done and not decisions:
        return None
    reviews = sum(row.reviews for row in decisions)
    return {"since": since, "counts": counts, "decisions": decisions, "reviews": reviews}
