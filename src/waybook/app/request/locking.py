"""Locked runs and orgs: lock, load, decide, write.

A run is locked while a decision about it is made and written. An org is locked so that changes of
its users and tokens are serialized.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, cast

from waybook.accounts.manage import record_org
from waybook.accounts.model import Org
from waybook.app.request.caller import require_scope
from waybook.app.request.definition_cache import compile_definition
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.outbox import run_notification_statements
from waybook.app.request.request_context import OpenTransaction, RequestContext, StoredAnswerFound
from waybook.core.changes import Entry
from waybook.core.decision_context import DecisionContext, Scope
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body
from waybook.run.draft import RunDecision
from waybook.run.model import CompiledDag, Job, Run
from waybook.store import audit, calls
from waybook.store.accounts import accounts
from waybook.store.accounts import writer as org_ledger
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.ids import new_id
from waybook.store.driver.queries import Statement
from waybook.store.runs import jobs, load, writer
from waybook.store.runs.load import LOAD_STATEMENT_COUNT, LoadedRun

ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True)
class LockedRun:
    """Run inside an open transaction, until it is written or released."""

    ctx: RequestContext
    tx: Transaction
    loaded: LoadedRun
    compiled_dag: CompiledDag
    #: Results of the additional statements in the first message.
    results: Results

    @property
    def run(self) -> Run:
        return self.loaded.run

    @property
    def decision_context(self) -> DecisionContext:
        """Return the time, actor and id source for the rules."""
        return DecisionContext(now=self.loaded.now, actor=self.ctx.actor(), new_id=new_id)

    async def send(self, *statements: Statement | str) -> Results:
        """Execute more statements in the same transaction."""
        return await self.tx.send(*statements)

    async def lock(self) -> "LockedRun":
        """Lock the run in the same transaction; return it as it is now."""
        results = await self.tx.send(*load.lock_statements(self.run.id))
        return await _held(self.ctx, self.tx, results)

    async def write(
        self, decision: RunDecision[ReplyT], body: Body, *loaded: Job, keep: bool = True
    ) -> Body:
        """Write the decision, store the answer, commit; then return the body, or raise the refusal.

        `loaded` are the jobs that the decision changes, as they were.

        Raises:
            Refused: the decision is a refusal; what it records has been written.
        """
        now, call = self.loaded.now, self.ctx
        write_context = audit.WriteContext(now=now, actor=call.actor(), head=self.loaded.head)
        before = {job.id: job for job in loaded}
        statements = writer.statements(self.run, before, decision, write_context)
        if decision.refusal is not None:
            refused = cast("Body", decision.refusal.as_json())
            await self.tx.commit(*statements, *call.answer_statements(refused, now, is_error=True))
            self._make_known(decision)
            raise decision.refusal
        notifications = run_notification_statements(
            call.services, call.caller, self.run, decision.run, self.compiled_dag, write_context
        )
        await self.tx.commit(
            *statements, *notifications, *(call.answer_statements(body, now) if keep else ())
        )
        if notifications:
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
        event = ChangeEvent(RUN, self.run.id, version, moved)
        self.ctx.services.bus.publish(self.ctx.caller.org_id, event)


@asynccontextmanager
async def lock_run(ctx: RequestContext, run_id: str, *more: Statement) -> AsyncIterator[LockedRun]:
    """Lock and load a run, and execute more statements under the lock.

    Raises:
        NotFound: it does not exist, or belongs to another org.
        StoredAnswerFound: the call was carried out before.
    """
    async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
        lookup_statements = [calls.lookup_statement(ctx.key)] if ctx.key else []
        results = await tx.send(*load.lock_statements(id_or_nil(run_id)), *more, *lookup_statements)
        if ctx.key is not None and results[-1]:
            raise StoredAnswerFound(calls.read_answer(results[-1][0], ctx.key))
        yield await _held(ctx, tx, results[: LOAD_STATEMENT_COUNT + len(more)])


@asynccontextmanager
async def open_run(ctx: RequestContext, run_id: str, *more: Statement) -> AsyncIterator[LockedRun]:
    """Open a run in a transaction, unlocked, for callers that decide nothing about it.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    async with ctx.services.database.org_transaction(ctx.caller.org_id) as tx:
        results = await tx.send(*load.snapshot_statements(id_or_nil(run_id)), *more)
        yield await _held(ctx, tx, results)


async def _held(ctx: RequestContext, tx: Transaction, results: Results) -> LockedRun:
    loaded = load.read_run(results)
    if loaded is None:
        raise run_not_found()
    return LockedRun(ctx, tx, loaded, await _chart(ctx, tx, loaded), results[LOAD_STATEMENT_COUNT:])


async def _chart(ctx: RequestContext, tx: Transaction, loaded: LoadedRun) -> CompiledDag:
    named = (ctx.caller.org_id, loaded.dag_slug, loaded.dag_version)
    compiled_dag = ctx.services.definition_cache.get(*named)
    if compiled_dag is None:
        (rows,) = await tx.send(load.definition_statement(*named[1:]))
        compiled_dag = ctx.services.definition_cache.put(
            named[0], compile_definition(rows[0][2], rows[0][0])
        )
    return compiled_dag


@dataclass(frozen=True, slots=True)
class UnlockedRun:
    """Run as it is now, unlocked."""

    loaded: LoadedRun
    compiled_dag: CompiledDag
    results: Results


async def load_run(ctx: RequestContext, run_id: str, *more: Statement) -> UnlockedRun:
    """Return a run as it is now, and the results of more statements from the same snapshot.

    Raises:
        NotFound: it does not exist, or belongs to another org.
    """
    results = await ctx.read(*load.snapshot_statements(id_or_nil(run_id)), *more)
    loaded = load.read_run(results)
    if loaded is None:
        raise run_not_found()
    compiled_dag = await load_definition(ctx, loaded.dag_slug, loaded.dag_version)
    return UnlockedRun(loaded, compiled_dag, results[LOAD_STATEMENT_COUNT:])


async def load_definition(ctx: RequestContext, slug: str, version: int) -> CompiledDag:
    """Return the version of a definition that a run uses."""
    org_id = ctx.caller.org_id
    compiled_dag = ctx.services.definition_cache.get(org_id, slug, version)
    if compiled_dag is None:
        (rows,) = await ctx.read(load.definition_statement(slug, version))
        compiled_dag = ctx.services.definition_cache.put(
            org_id, compile_definition(rows[0][2], rows[0][0])
        )
    return compiled_dag


async def run_of_job(ctx: RequestContext, job_id: str) -> str:
    """Return the run that a job belongs to.

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
    """Return the error for a missing run, the same if it exists in another org."""
    return NotFound(
        "there is no run with this id here",
        next_call=NextCall("list_dags", {}, "see the DAGs and the runs there are"),
    )


def job_not_found() -> NotFound:
    """Return the error for a missing job, the same if it exists in another org."""
    return NotFound(
        "there is no job with this id here",
        next_call=NextCall("get_next_job", {}, "take a job"),
    )


@dataclass(frozen=True, slots=True)
class LockedOrg:
    opened: OpenTransaction
    loaded: accounts.LoadedOrg

    @property
    def org(self) -> Org:
        return self.loaded.org

    @property
    def now(self) -> datetime:
        return self.loaded.head.after(self.opened.now)

    @property
    def decision_context(self) -> DecisionContext:
        """Return the time, actor and id source for the rules."""
        return self.opened.decision_context._replace(now=self.now)

    @property
    def results(self) -> Results:
        """Return the results of the additional statements."""
        return self.opened.results[2:]

    async def write(self, *entries: Entry, org: Org | None = None) -> None:
        """Write these entries and their changes, and commit.

        `org` is the changed org, if it changes.
        """
        head = self.loaded.head
        # A chain begins with the state of the org before its first change.
        first = () if head.seq else (record_org(self.org, self.decision_context),)
        write_context = audit.WriteContext(
            now=self.now, actor=self.decision_context.actor, head=head
        )
        written = org_ledger.statements(org or self.org, (*first, *entries), write_context)
        await self.opened.tx.commit(*written)


@asynccontextmanager
async def lock_org(ctx: RequestContext, *statements: Statement) -> AsyncIterator[LockedOrg]:
    """Lock the caller's org, and execute these statements.

    Raises:
        Forbidden: the caller does not administer it.
    """
    require_scope(ctx.caller, Scope.ADMIN, "changing users and tokens")
    lock = (accounts.SQL["lock_org"](), accounts.SQL["last_entry_of_org"]())
    async with ctx.begin(*lock, *statements) as opened:
        yield LockedOrg(opened, accounts.read_org(opened.results[0], opened.results[1]))
