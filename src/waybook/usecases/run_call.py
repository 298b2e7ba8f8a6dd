"""A run on its way into our hands, and out of them again: locked, loaded, decided upon, written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from waybook.errors import NextCall, NotFound
from waybook.record.moment import Moment
from waybook.record.news import RUN, News
from waybook.run.decision import RunDecision
from waybook.run.model import Chart, Job, Run
from waybook.store import definitions, idempotency, jobs, ledger, run_ledger, runs
from waybook.store.database import Results, Tx
from waybook.store.ids import new_id
from waybook.store.runs import LOADING, LoadedRun
from waybook.store.sql import Statement
from waybook.usecases.call import Answered, Body, Call, known
from waybook.usecases.charts import chart_of
from waybook.usecases.telling import told_of_run

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run in our hands, until it is written or let go."""

    call: Call
    tx: Tx
    loaded: LoadedRun
    chart: Chart
    #: What else was asked for in the first message.
    found: Results

    @property
    def run(self) -> Run:
        return self.loaded.run

    @property
    def moment(self) -> Moment:
        """What the rules are told of the world."""
        return Moment(now=self.loaded.now, actor=self.call.actor(), new_id=new_id)

    async def send(self, *statements: Statement | str) -> Results:
        """Ask for more, in the same transaction."""
        return await self.tx.send(*statements)

    async def locked(self) -> "HeldRun":
        """The run as it is now, locked from here on in the same transaction."""
        results = await self.tx.send(*runs.lock_statements(self.run.id))
        return await _held(self.call, self.tx, results)

    async def write(
        self, decision: RunDecision[ReplyT], body: Body, *loaded: Job, keep: bool = True
    ) -> Body:
        """Write what was decided, keep the answer, commit; then answer, or refuse.

        `loaded` are the jobs the decision changes, as they were.

        Raises:
            Refused: the decision refuses, after what it keeps has been written.
        """
        now, call = self.loaded.now, self.call
        hand = ledger.Hand(now=now, actor=call.actor(), head=self.loaded.head)
        before = {job.id: job for job in loaded}
        statements = run_ledger.statements(self.run, before, decision, hand)
        if decision.refusal is not None:
            refused = cast("Body", decision.refusal.as_json())
            await self.tx.commit(*statements, *call.keep(refused, now, is_error=True))
            self._make_known(decision)
            raise decision.refusal
        told = told_of_run(call.house, call.caller, self.run, decision.run, self.chart, hand)
        await self.tx.commit(*statements, *told, *(call.keep(body, now) if keep else ()))
        if told:
            call.house.to_deliver.set()
        self._make_known(decision)
        for job in decision.jobs.values():
            call.house.job_places.remember(call.caller.org_id, job.id, self.run.id)
            if job.unit is None and job.completed_at is None:
                call.house.to_render.set()
        return body

    def _make_known(self, decision: RunDecision[object]) -> None:
        if not decision.entries:
            return
        version = self.loaded.head.seq + len(decision.entries)
        moved = decision.run.stages != self.run.stages
        news = News(RUN, self.run.id, version, moved)
        self.call.house.bus.publish(self.call.caller.org_id, news)


@asynccontextmanager
async def locked_run(call: Call, run_id: str, *more: Statement) -> AsyncIterator[HeldRun]:
    """A run, locked and loaded, and whatever else is asked for behind the lock.

    Raises:
        NotFound: it is not there, or not this org's.
        Answered: the call was carried out before.
    """
    async with call.house.database.tenant(call.caller.org_id) as tx:
        asked = [idempotency.lookup_statement(call.key)] if call.key else []
        results = await tx.send(*runs.lock_statements(known(run_id)), *more, *asked)
        if call.key is not None and results[-1]:
            raise Answered(idempotency.read_answer(results[-1][0], call.key))
        yield await _held(call, tx, results[: LOADING + len(more)])


@asynccontextmanager
async def opened_run(call: Call, run_id: str, *more: Statement) -> AsyncIterator[HeldRun]:
    """A run in a transaction, unlocked: for whoever decides nothing about it.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    async with call.house.database.tenant(call.caller.org_id) as tx:
        results = await tx.send(*runs.look_statements(known(run_id)), *more)
        yield await _held(call, tx, results)


async def _held(call: Call, tx: Tx, results: Results) -> HeldRun:
    loaded = runs.read_run(results)
    if loaded is None:
        raise run_not_found()
    return HeldRun(call, tx, loaded, await _chart(call, tx, loaded), results[LOADING:])


async def _chart(call: Call, tx: Tx, loaded: LoadedRun) -> Chart:
    named = (call.caller.org_id, loaded.dag_slug, loaded.dag_version)
    chart = call.house.charts.get(*named)
    if chart is None:
        (rows,) = await tx.send(definitions.definition_statement(*named[1:]))
        chart = call.house.charts.remember(named[0], chart_of(rows[0][2], rows[0][0]))
    return chart


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run as it is now, unlocked."""

    loaded: LoadedRun
    chart: Chart
    found: Results


async def look_at_run(call: Call, run_id: str, *more: Statement) -> SeenRun:
    """A run as it is now, and whatever else is asked in the same snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    results = await call.read(*runs.look_statements(known(run_id)), *more)
    loaded = runs.read_run(results)
    if loaded is None:
        raise run_not_found()
    chart = await chart_by_name(call, loaded.dag_slug, loaded.dag_version)
    return SeenRun(loaded, chart, results[LOADING:])


async def chart_by_name(call: Call, slug: str, version: int) -> Chart:
    """The version of a definition that a run goes by."""
    org_id = call.caller.org_id
    chart = call.house.charts.get(org_id, slug, version)
    if chart is None:
        (rows,) = await call.read(definitions.definition_statement(slug, version))
        chart = call.house.charts.remember(org_id, chart_of(rows[0][2], rows[0][0]))
    return chart


async def run_of_job(call: Call, job_id: str) -> str:
    """The run a job belongs to.

    Raises:
        NotFound: there is no such job.
    """
    job_id = known(job_id).lower()
    remembered = call.house.job_places.plan_of(call.caller.org_id, job_id)
    if remembered is not None:
        return remembered
    (rows,) = await call.read(jobs.run_of_job_statement(job_id))
    if not rows:
        raise job_not_found()
    call.house.job_places.remember(call.caller.org_id, job_id, rows[0][0])
    return str(rows[0][0])


def run_not_found() -> NotFound:
    """The answer for a run that is not there, the same whosever it may be."""
    return NotFound(
        "there is no run with this id here",
        next_call=NextCall("list_dags", {}, "see the DAGs and the runs there are"),
    )


def job_not_found() -> NotFound:
    """The answer for a job that is not there, the same whosever it may be."""
    return NotFound(
        "there is no job with this id here",
        next_call=NextCall("get_next_job", {}, "take a job"),
    )
