"""A run on its way into our hands, and out of them again: locked, loaded, decided upon, written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar, cast

from waybook.errors import NextCall, NotFound
from waybook.record.moment import DecisionContext
from waybook.record.news import RUN, ChangeEvent
from waybook.run.decision import RunDecision
from waybook.run.model import CompiledDag, Job, Run
from waybook.store import definitions, idempotency, jobs, ledger, run_ledger, runs
from waybook.store.database import Results, Transaction
from waybook.store.ids import new_id
from waybook.store.runs import LOAD_STATEMENT_COUNT, LoadedRun
from waybook.store.sql import Statement
from waybook.usecases.call import Body, RequestContext, StoredAnswerFound, id_or_nil
from waybook.usecases.charts import compile_definition
from waybook.usecases.telling import run_notification_statements

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class LockedRun:
    """A run in our hands, until it is written or let go."""

    call: RequestContext
    tx: Transaction
    loaded: LoadedRun
    compiled_dag: CompiledDag
    #: What else was asked for in the first message.
    results: Results

    @property
    def run(self) -> Run:
        return self.loaded.run

    @property
    def decision_context(self) -> DecisionContext:
        """What the rules are told of the world."""
        return DecisionContext(now=self.loaded.now, actor=self.call.actor(), new_id=new_id)

    async def send(self, *statements: Statement | str) -> Results:
        """Ask for more, in the same transaction."""
        return await self.tx.send(*statements)

    async def lock(self) -> "LockedRun":
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
        write_context = ledger.WriteContext(now=now, actor=call.actor(), head=self.loaded.head)
        before = {job.id: job for job in loaded}
        statements = run_ledger.statements(self.run, before, decision, write_context)
        if decision.refusal is not None:
            refused = cast("Body", decision.refusal.as_json())
            await self.tx.commit(*statements, *call.answer_statements(refused, now, is_error=True))
            self._make_known(decision)
            raise decision.refusal
        told = run_notification_statements(
            call.services, call.caller, self.run, decision.run, self.compiled_dag, write_context
        )
        await self.tx.commit(
            *statements, *told, *(call.answer_statements(body, now) if keep else ())
        )
        if told:
            call.services.delivery_requested.set()
        self._make_known(decision)
        for job in decision.jobs.values():
            call.services.job_parents.put(call.caller.org_id, job.id, self.run.id)
            if job.unit is None and job.completed_at is None:
                call.services.render_requested.set()
        return body

    def _make_known(self, decision: RunDecision[object]) -> None:
        if not decision.entries:
            return
        version = self.loaded.head.seq + len(decision.entries)
        moved = decision.run.stages != self.run.stages
        news = ChangeEvent(RUN, self.run.id, version, moved)
        self.call.services.bus.publish(self.call.caller.org_id, news)


@asynccontextmanager
async def lock_run(ctx: RequestContext, run_id: str, *more: Statement) -> AsyncIterator[LockedRun]:
    """A run, locked and loaded, and whatever else is asked for behind the lock.

    Raises:
        NotFound: it is not there, or not this org's.
        Answered: the call was carried out before.
    """
    async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
        asked = [idempotency.lookup_statement(ctx.key)] if ctx.key else []
        results = await tx.send(*runs.lock_statements(id_or_nil(run_id)), *more, *asked)
        if ctx.key is not None and results[-1]:
            raise StoredAnswerFound(idempotency.read_answer(results[-1][0], ctx.key))
        yield await _held(ctx, tx, results[: LOAD_STATEMENT_COUNT + len(more)])


@asynccontextmanager
async def open_run(ctx: RequestContext, run_id: str, *more: Statement) -> AsyncIterator[LockedRun]:
    """A run in a transaction, unlocked: for whoever decides nothing about it.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
        results = await tx.send(*runs.snapshot_statements(id_or_nil(run_id)), *more)
        yield await _held(ctx, tx, results)


async def _held(ctx: RequestContext, tx: Transaction, results: Results) -> LockedRun:
    loaded = runs.read_run(results)
    if loaded is None:
        raise run_not_found()
    return LockedRun(ctx, tx, loaded, await _chart(ctx, tx, loaded), results[LOAD_STATEMENT_COUNT:])


async def _chart(ctx: RequestContext, tx: Transaction, loaded: LoadedRun) -> CompiledDag:
    named = (ctx.caller.org_id, loaded.dag_slug, loaded.dag_version)
    chart = ctx.services.definition_cache.get(*named)
    if chart is None:
        (rows,) = await tx.send(definitions.definition_statement(*named[1:]))
        chart = ctx.services.definition_cache.put(
            named[0], compile_definition(rows[0][2], rows[0][0])
        )
    return chart


@dataclass(frozen=True, slots=True)
class UnlockedRun:
    """A run as it is now, unlocked."""

    loaded: LoadedRun
    chart: CompiledDag
    results: Results


async def load_run(ctx: RequestContext, run_id: str, *more: Statement) -> UnlockedRun:
    """A run as it is now, and whatever else is asked in the same snapshot.

    Raises:
        NotFound: it is not there, or not this org's.
    """
    results = await ctx.read(*runs.snapshot_statements(id_or_nil(run_id)), *more)
    loaded = runs.read_run(results)
    if loaded is None:
        raise run_not_found()
    chart = await load_definition(ctx, loaded.dag_slug, loaded.dag_version)
    return UnlockedRun(loaded, chart, results[LOAD_STATEMENT_COUNT:])


async def load_definition(ctx: RequestContext, slug: str, version: int) -> CompiledDag:
    """The version of a definition that a run goes by."""
    org_id = ctx.caller.org_id
    chart = ctx.services.definition_cache.get(org_id, slug, version)
    if chart is None:
        (rows,) = await ctx.read(definitions.definition_statement(slug, version))
        chart = ctx.services.definition_cache.put(
            org_id, compile_definition(rows[0][2], rows[0][0])
        )
    return chart


async def run_of_job(ctx: RequestContext, job_id: str) -> str:
    """The run a job belongs to.

    Raises:
        NotFound: there is no such job.
    """
    job_id = id_or_nil(job_id).lower()
    remembered = ctx.services.job_parents.get(ctx.caller.org_id, job_id)
    if remembered is not None:
        return remembered
    (rows,) = await ctx.read(jobs.run_of_job_statement(job_id))
    if not rows:
        raise job_not_found()
    ctx.services.job_parents.put(ctx.caller.org_id, job_id, rows[0][0])
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
