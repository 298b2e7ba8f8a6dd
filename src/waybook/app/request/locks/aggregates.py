"""The plan that a call changes.

The call either locks the plan first, or computes the change from a cached copy and locks the plan
only to write.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from waybook.app.request.access import cache_steps, require_plan
from waybook.app.request.locks.locking import Locked, Proposal, Written
from waybook.app.request.outbox import notification_statements
from waybook.app.request.request_context import RequestContext
from waybook.core.events import PLAN, ChangeEvent
from waybook.core.ids import id_or_nil, is_id
from waybook.plan.draft import Decision
from waybook.plan.model import Plan, StepId, StepStatus, StepText
from waybook.plan.progress import plan_notifications
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Message, Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement
from waybook.store.plans import load, refresh, writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan, PlanRequest

PlanProposal: TypeAlias = Proposal[Decision[object]]
#: Inner functions use this alias, because Python evaluates their annotations in every outer call.
OptionalPlanProposal: TypeAlias = PlanProposal | None

MAX_NEXT_TEXTS = 7


class LockedPlan(Locked[Decision[object]]):
    plan: Plan
    _locks_by_update = False

    def __init__(
        self,
        ctx: RequestContext,
        *more: Statement,
        plan_id: str,
        step_id: str | None = None,
        texts: tuple[str, ...] = (),
        candidates: bool = False,
        review: bool = True,
        cached: bool = False,
    ) -> None:
        """Choose the plan and the rows to load.

        If `cached` is true, the call may compute its change from the cached plan, without a lock.
        """
        super().__init__(ctx, *more)
        self._step_id, self._cached = step_id, cached
        self._wanted = PlanRequest(
            plan_id=plan_id,
            texts=tuple(filter(is_id, (*texts, step_id or ""))),
            candidates=candidates,
            holder=self.actor.holder,
            review=review,
        )
        self._key = ctx.caller.org_id.int, plan_id
        self._cache = ctx.services.shared(PlanCache)
        #: True after `_refresh` has read the plan, or its changes, from the database.
        self._is_checked = False
        self._missing_texts: dict[StepId, StepText] = {}

    @property
    def loaded(self) -> LoadedPlan:
        return LoadedPlan(self.plan, self.now, self.head)

    def statements(self, key: Key | None) -> Message:
        return [*load.load_statements(self._wanted, key, lock=True), *self.more]

    def stored_answer(self, results: Results, key: Key) -> StoredAnswer | None:
        return load.read_answer(results, key)

    async def read(self, results: Results, tx: Transaction) -> None:
        loaded = require_plan(results, self._wanted, self._step_id)
        self.ctx.services.database.clock.set(loaded.now)
        self.plan, self.now, self.head = loaded.to_decide()
        self.is_cached = False
        self.tx, self.results = tx, results[len(results) - len(self.more) :]

    async def enter(
        self, key: Key | None = None, *, use_cache: bool = False
    ) -> StoredAnswer | None:
        self._cache.begin_use(self._key)
        if use_cache and self._cached and (self._recall() or await self._refresh()):
            return None
        return await super().enter(key)

    async def leave(self) -> None:
        self._cache.end_use(self._key)
        await super().leave()

    async def load_texts(self, step_ids: Iterable[StepId]) -> bool:
        """Load the texts of these steps. Return False if a cached plan has changed meanwhile."""
        missing = [step_id for step_id in step_ids if step_id not in self.plan.texts]
        if not missing:
            return True
        if self.is_cached:
            wanted = [*missing, *self._next_texts(self.plan, missing)]
            statement = load.texts_statement(self.plan.id, wanted)
            (rows,) = await self.ctx.read_in_group(self.plan.id, statement)
            self._missing_texts = load.read_texts(rows)
        else:
            (rows,) = await self.send(load.texts_statement(self.plan.id, missing))
        self.plan = self.plan._replace(texts={**self.plan.texts, **load.read_texts(rows)})
        return not self.is_cached or all(step_id in self.plan.texts for step_id in missing)

    @staticmethod
    def _next_texts(plan: Plan, missing: list[StepId]) -> list[StepId]:
        known = {*plan.texts, *missing}
        pending = plan.steps_with_status(StepStatus.PENDING)
        return list(islice((step.id for step in pending if step.id not in known), MAX_NEXT_TEXTS))

    def _recall(self) -> bool:
        """Use the cached plan. Return False if the database must be read first."""
        services = self.ctx.services
        loaded = self._cache.get(self._key, self.ctx.session)
        now = services.database.now()
        if loaded is None or now is None:
            return False
        if self._step_id is not None and self._step_id not in loaded.plan.texts:
            return False
        self.plan, _, self.head = loaded
        self.now = self.head.after(now)
        self.is_cached = True
        return True

    async def _refresh(self) -> bool:
        """Read the plan, or its changes since it was cached, without a lock.

        Return False if the call must lock the plan.
        """
        services = self.ctx.services
        if self._cache.must_lock(self._key):
            return False
        cached = self._cache.get_unchecked(self._key, self.ctx.session)
        loaded = await self._read_changes(cached) if cached else None
        if loaded is None:
            wanted = self._wanted
            (rows,) = await self.ctx.read_in_group(wanted.plan_id, refresh.plan_statement(wanted))
            loaded = refresh.read_plan(rows, wanted)
            if loaded is None:
                return False
            # Remove the cached copy, because its list of the plan's sessions may be incomplete.
            self._cache.invalidate(self._key)
            cache_steps(self.ctx, loaded.plan)
        if cached is not None:
            unchanged = loaded.head.seq == cached.head.seq
            mark = self._cache.mark_unchanged if unchanged else self._cache.mark_changed
            mark(self._key)
        services.database.clock.set(loaded.now)
        self.plan, now, self.head = loaded
        self.now = self.head.after(services.database.frozen_now or now)
        self.is_cached = self._is_checked = True
        return self._step_id is None or self._step_id in self.plan.texts

    async def _read_changes(self, cached: LoadedPlan) -> LoadedPlan | None:
        statements = [refresh.changes_statement(cached)]
        step_id = StepId(id_or_nil(self._step_id)) if self._step_id else None
        if step_id is not None and step_id not in cached.plan.texts:
            wanted = [step_id, *self._next_texts(cached.plan, [step_id])]
            statements.append(load.texts_statement(cached.plan.id, wanted))
        rows, *texts = await self.ctx.read_in_group(self._wanted.plan_id, *statements)
        loaded = refresh.apply_entries(cached, rows)
        if loaded is None or not texts:
            return loaded
        all_texts = {**loaded.plan.texts, **load.read_texts(texts[0])}
        return loaded._replace(plan=loaded.plan._replace(texts=all_texts))

    async def send_last(self, statements: list[Statement], on_commit: Callable[[], None]) -> None:
        if not self.is_cached:
            await super().send_last(statements, on_commit)
            return
        if not self._locks_by_update:
            statements = [load.lock_if_unchanged_statement(self.loaded), *statements]
        database = self.ctx.services.database
        waits = self._is_checked and database.has_calls(self.ctx.caller.org_id)
        (lock,), *_ = await self.ctx.commit(self.plan.id, statements, on_commit, waits=waits)
        database.clock.set(lock.now)

    def mark_stale(self) -> None:
        mark = self._cache.mark_contended if self._is_checked else self._cache.mark_changed
        mark(self._key)

    def written(self, proposal: PlanProposal) -> Written:
        ctx, before, decision = self.ctx, self.plan, proposal.decision
        plan, write_context = decision.plan, self.write_context
        statements, head = writer.statements(
            before, decision, write_context, is_cached=self.is_cached
        )
        self._locks_by_update = self.is_cached and head is not self.head
        moved = plan.status is not before.status

        def remember() -> None:
            cached = plan
            if self._missing_texts:
                cached = plan._replace(texts={**self._missing_texts, **plan.texts})
            self._cache.put(self._key, LoadedPlan(cached, self.now, head))
            for step_id in decision.touched:
                ctx.cache_step_plan(step_id, plan.id)

        return Written(
            statements,
            notification_statements(ctx, plan_notifications(before, plan), write_context),
            ChangeEvent(PLAN, plan.id, head.seq, moved) if head is not self.head else None,
            remember,
            decision.refusal,
        )
