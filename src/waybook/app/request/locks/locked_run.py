"""The run that a call changes.

The call either locks the run first, or computes the change from a cached copy and locks the run
only to write.

Calls on one run take turns in this process. See `store/runs/cache.py` and `store/runs/pipeline.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import TypeAlias

from waybook.app.request.access import load_definition, run_not_found
from waybook.app.request.locks.locking import Locked, Proposal, Written, notification_statements
from waybook.app.request.request_context import RequestContext
from waybook.core.changes import Event
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import Busy
from waybook.run.model import CompiledDag, Job, Run, RunDecision
from waybook.run.status import run_notifications
from waybook.store import calls
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Message, Results
from waybook.store.driver.database import Transaction, pending_check
from waybook.store.driver.group_commit import Call
from waybook.store.driver.queries import Statement
from waybook.store.runs import cache, writer
from waybook.store.runs import load as runs
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.jobs import JobRequest
from waybook.store.runs.load import LOAD_STATEMENT_COUNT, RunBriefRow
from waybook.store.runs.pipeline import TURN_TIMEOUT_SECONDS, DecidedCall
from waybook.store.runs.slots import RunCache
from waybook.store.runs.writer import RunWrite

RunProposal: TypeAlias = Proposal[RunDecision[object]]

#: Maximum time for which a call waits for its turn while it holds a database connection. The time
#: is short, because the call whose turn it is may need this connection.
MAX_TURN_WAIT_SECONDS = 0.2


class LockedRun(Locked[RunDecision[object]]):
    run: Run
    dag: CompiledDag
    #: The columns of the run that never change. None if the run is not cached.
    brief: RunBriefRow | None = None

    def __init__(
        self,
        ctx: RequestContext,
        run_id: str,
        *more: Statement,
        is_locked: bool = True,
        unless_cached: Callable[[], Sequence[Statement]] | None = None,
    ) -> None:
        """Choose the run to load. `is_locked` is False if the call does not change the run.

        If there is a function `unless_cached`, the call may compute its change from the cached run.
        The statements that the function returns are executed only if the run must be locked.
        """
        super().__init__(ctx, *more)
        self._run_id = run_id
        self._is_locked = is_locked
        self._takes_turns = is_locked
        self._unless_cached = unless_cached
        self._slot = ctx.services.shared(RunCache).slot((ctx.caller.org_id.int, self._run_id))
        self._has_turn = False
        self._is_sharing = False
        self._reserved: list[str] = []
        self._before: CachedRun | None = None
        self._state: CachedRun | None = None
        self._deferred: list[RunWrite] = []

    def statements(self, key: Key | None) -> Message:
        lookup_statements = [calls.lookup_statement(key)] if key else []
        return [
            *runs.load_statements(self._run_id, lock=self._is_locked),
            *self.more,
            *lookup_statements,
        ]

    async def read(self, results: Results, tx: Transaction) -> None:
        loaded = runs.read_run(results)
        if loaded is None:
            raise run_not_found()
        dag = await load_definition(self.ctx, loaded.dag_slug, loaded.dag_version, tx)
        self.run, self.dag, self.now, self.head = loaded.run, dag, loaded.now, loaded.head
        end = LOAD_STATEMENT_COUNT + len(self.more)
        self.tx, self.results = tx, results[LOAD_STATEMENT_COUNT:end]

    async def enter(
        self, key: Key | None = None, *, use_cache: bool = False
    ) -> StoredAnswer | None:
        self._written_before.clear()
        self._deferred.clear()
        may_use_cache = use_cache and self._unless_cached is not None
        self.is_cached = may_use_cache and self._slot.may_use_cache()
        if self.is_cached:
            return None
        if self._unless_cached is not None:
            self.more = tuple(self._unless_cached())
        self.brief = None
        if self._takes_turns:
            await self._take_turn()
        return await super().enter(key)

    async def leave(self) -> None:
        try:
            await super().leave()
        finally:
            self._slot.release(self._reserved)
            self._reserved.clear()
            self._end_turn()

    async def lock(self) -> None:
        self.more = ()
        self._is_locked = True
        # The lock alone is sufficient. A turn only avoids conflicts, so continue even without one.
        with suppress(Busy):
            await self._take_turn(MAX_TURN_WAIT_SECONDS)
        await self.read(await self.send(*self.statements(None)), self.tx)

    async def write_and_reload(self, proposal: RunProposal, *more: Statement) -> None:
        """Write a change without a commit, and load the run again for the next change.

        A call that submits a job and claims another one makes two changes.
        """
        written = self.written(proposal)
        await self.send(*written.statements, *written.notifications)
        self._written_before.append(written)
        self.more = more
        await self.read(await self.send(*self.statements(None)), self.tx)

    async def _take_turn(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        if not self._has_turn:
            await self._slot.turns.take(seconds)
            self._has_turn = True

    def _end_turn(self) -> None:
        if self._is_sharing:
            self._is_sharing = False
            self._slot.turns.leave()
        if self._has_turn:
            self._has_turn = False
            self._slot.turns.end()

    async def reserve(self, wanted: JobRequest, *, besides: str | None = None) -> Job | None:
        """Reserve a free job of the cached run.

        Return None if the call must lock the run instead.
        """
        database = self.ctx.services.database
        if self._slot.needs_load(wanted, database.now()):
            await self._take_turn()
            try:
                if self._slot.needs_load(wanted, database.now()):
                    most = self._slot.begin_load(wanted, database.now())
                    results = await self.ctx.read(
                        *cache.load_statements(self._run_id, wanted, most)
                    )
                    if results[0]:
                        database.clock.set(results[0][0].now)
                    self._slot.put(cache.read_cached(results, wanted, most))
            finally:
                self._end_turn()
        job = self._slot.reserve(wanted, besides=besides)
        if job is not None:
            self._reserved.append(job.id)
        is_plain = job is not None and job.continues is None and job.document is None
        return job if is_plain and await self._recall() else None

    async def _recall(self) -> bool:
        """Use the committed state of the cached run. Return False if the run is not cached."""
        cached = self._slot.cached
        if cached is None:
            return False
        if self._state is None:
            slug, version = cached.dag_slug, cached.dag_version
            self.dag = await load_definition(self.ctx, slug, version)
        self.run, self.brief, self._state = cached.run, cached.brief, cached
        return True

    async def begin_turn(self) -> bool:
        """Wait for this call's turn. Then use the cached run with all earlier changes applied.

        The caller must then compute its change without an `await`, because other calls share the
        turn and could change the cached run.
        """
        if not await self._recall():
            return False
        await self._slot.turns.join()
        self._is_sharing = True
        state, now = self._slot.state, self.ctx.services.database.now()
        if state is None or now is None:
            return False
        self.run, self.brief = state.run, state.brief
        self.head, self.now = state.head, state.head.after(now)
        self._before = self._state = state
        return True

    @property
    def cached_run(self) -> CachedRun | None:
        return self._state if self.is_cached else None

    def can_claim(self, job: Job, wanted: JobRequest) -> bool:
        state = self._state
        return state is not None and not state.holds_job(wanted) and state.is_free(job, wanted)

    def held_job(self, job_id: str) -> Job | None:
        cached = self._state if self._is_sharing else self._slot.cached
        return cached.held.get(job_id) if cached else None

    def defer(self, proposal: RunProposal) -> None:
        """Apply a change in memory, to write it together with the second change of the call."""
        write, written = self._seal(proposal)
        self._written_before.append(written)
        self._deferred.append(write)
        self._state = self._state.advance(proposal.decision, write.head) if self._state else None
        self.run, self.head = proposal.decision.run, write.head

    async def commit(self, proposal: RunProposal) -> None:
        if not self.is_cached:
            await super().commit(proposal)
            return
        before, state = self._before, self._state
        if not self._is_sharing or before is None or state is None:
            raise RuntimeError("the call changed the cached run without waiting for its turn")
        write, written = self._seal(proposal)
        earlier = [statement for part in self._written_before for statement in part.notifications]
        more = [*earlier, *self._all_statements(proposal, written)]
        after = state.advance(proposal.decision, write.head)
        # Another call may send these statements, so add the check of this call's credential.
        check = pending_check(self.ctx.caller.org_id)
        if check is not None:
            more.append(check.statement)

        async def send(statements: Message) -> None:
            # `on_commit` does nothing, because each call of the batch updates its own caches.
            call = Call(self.ctx.caller.org_id, self._run_id, statements, on_commit=lambda: None)
            (checked,), *_ = await self.ctx.services.database.commit(call)
            self.ctx.services.database.clock.set(checked.now)

        decided = DecidedCall(before, after, [*self._deferred, write], more, send)
        self._is_sharing = False
        with check or nullcontext():
            await self._slot.pipeline.commit(decided)
        self._after_commit((*self._written_before, written))

    async def send(self, *statements: Statement | str) -> Results:
        if self.is_cached:
            return await self.ctx.read(*statements) if statements else []
        return await super().send(*statements)

    def mark_stale(self) -> None:
        self._slot.mark_contended()

    def written(self, proposal: RunProposal) -> Written:
        write, written = self._seal(proposal)
        return written._replace(statements=writer.statements(self.run, [write]))

    def _seal(self, proposal: RunProposal) -> tuple[RunWrite, Written]:
        """Return the change with sealed audit entries, and the actions after its commit."""
        ctx, before, decision = self.ctx, self.run, proposal.decision
        run, dag, services = decision.run, self.dag, ctx.services
        write_context = self.write_context
        moved = run.stages != before.stages or run.canceled_at != before.canceled_at
        # If a job failed or is retried, the list of work that needs a person may change.
        last = decision.entries[-1].event if decision.entries else None
        if not moved and last in (Event.STEP_FAILED, Event.PLAN_MODIFIED):
            moved = run.failed_steps != before.failed_steps
        moved = moved or proposal.notifications is not None
        notifications = (*run_notifications(before, run, dag), *(proposal.notifications or ()))
        loaded = {job.id: job for job in proposal.jobs}
        write = writer.seal_decision(decision, loaded, write_context)

        def remember() -> None:
            self._slot.advance(write_context.head, decision, write.head)
            for job in decision.jobs.values():
                services.job_parents.put(ctx.caller.org_id, job.id, run.id)
                if job.unit is None and job.completed_at is None:
                    services.render_requested.add(ctx.caller.org_id)

        written = Written(
            [],
            notification_statements(ctx, notifications, write_context),
            ChangeEvent(RUN, run.id, write.head.seq, moved) if decision.entries else None,
            remember,
            decision.refusal,
        )
        return write, written
