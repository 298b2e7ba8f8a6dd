"""Request context: the caller of one tool call, and the transactions it opens.

A use case gets a `RequestContext`, opens what it needs, decides, and writes. The lock comes first,
the stored answer to a repeated call second, the load third, all in one message.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, cast

from waybook.app.request.caller import Caller
from waybook.app.request.lookups import NIL_ID, _has_step, id_or_nil, not_found, require_plan
from waybook.app.request.outbox import plan_notification_statements
from waybook.app.request.services import Services
from waybook.core.decision_context import Actor, DecisionContext
from waybook.core.events import PLAN, ChangeEvent
from waybook.errors import Busy, Unavailable, WaybookError
from waybook.json_values import Body
from waybook.plan.decision import Decision
from waybook.plan.model import Plan
from waybook.store import audit, calls
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction, TransactionScope
from waybook.store.driver.ids import is_id, new_id
from waybook.store.driver.queries import Statement
from waybook.store.driver.wire import StaleCache
from waybook.store.plans import load, writer
from waybook.store.plans.cache import PlanKey
from waybook.store.plans.load import LoadedPlan, PlanRequest


class StoredAnswerFound(Exception):
    """Signal that the call was answered before; carries the stored answer."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    services: Services
    caller: Caller
    session: str | None = None
    key: Key | None = None
    #: Whether the call may use cached plans; if one is outdated, the call is repeated without.
    use_cache: bool = True
    #: Cost of evaluated conditions so far, for the rate limit.
    operations: list[int] = field(default_factory=list, compare=False)

    def actor(self) -> Actor:
        """Return the caller as an actor for the rules and the audit."""
        return self.caller.actor(self.session)

    async def read(self, *statements: Statement | str) -> Results:
        """Read the org as it is now, in one snapshot."""
        return await self.services.database.read_org(self.caller.org_id, *statements)

    async def write_and_read(self, *statements: Statement) -> Results:
        """Execute writes that need no decision, and reads, in one transaction and message."""
        async with self.services.database.org_transaction(self.caller.org_id) as tx:
            return await tx.commit(*statements)

    async def load_plan(self, wanted: PlanRequest, *more: Statement) -> tuple[LoadedPlan, Results]:
        """Return a plan, unlocked, and the results of more statements from the same snapshot."""
        statements = load.snapshot_statements(wanted)
        results = await self.read(*statements, *more)
        return require_plan(results[: len(statements)], wanted), results[len(statements) :]

    @asynccontextmanager
    async def begin(self, *statements: Statement | str) -> AsyncIterator["OpenTransaction"]:
        """Open a transaction without locking a plan, its first statements executed."""
        async with self.services.database.org_transaction(self.caller.org_id) as tx:
            lookup_statements = [calls.lookup_statement(self.key)] if self.key else []
            # A lock comes first: reads after the wait must see what was committed during it.
            results = await tx.send(*statements, "select app_now()", *lookup_statements)
            first_results, (now, *stored) = results[: len(statements)], results[len(statements) :]
            if self.key is not None and stored[0]:
                _answered(calls.read_answer(stored[0][0], self.key))
            yield OpenTransaction(self, tx, now[0][0].astimezone(UTC), first_results)

    def lock_plan(
        self,
        *more: Statement,
        plan_id: str | None = None,
        step_id: str | None = None,
        texts: tuple[str, ...] = (),
        candidates: bool = False,
        review: bool = True,
        recalls: bool = False,
    ) -> "PlanLock":
        """Lock and load a plan; `recalls` allows a cached one, which is locked with the write.

        Raises:
            NotFound: it does not exist, or belongs to another org.
            StoredAnswerFound: the call was carried out before.
        """
        wanted = PlanRequest(
            plan_id=plan_id or "",
            texts=tuple([text for text in (*texts, step_id or "") if is_id(text)]),
            candidates=candidates,
            holder=self.actor().holder,
            review=review,
        )
        return PlanLock(self, wanted, step_id, more, recalls=recalls and self.use_cache)

    async def plan_of_step(self, step_id: str) -> str:
        """Return the plan that this step belongs to.

        Raises:
            NotFound: there is no such step.
        """
        step_id = id_or_nil(step_id).lower()
        remembered = self.services.step_parents.get(self.caller.org_id, step_id)
        if remembered is not None:
            return remembered
        (rows,) = await self.read(load.plan_of_step_statement(step_id))
        if not rows:
            raise not_found("step")
        self.cache_step_plan(step_id, rows[0][0])
        return str(rows[0][0])

    def cache_step_plan(self, step_id: str, plan_id: str) -> None:
        """Cache the step's plan id."""
        self.services.step_parents.put(self.caller.org_id, step_id, plan_id)

    def answer_statements(
        self, body: Body, now: datetime, *, is_error: bool = False
    ) -> list[Statement]:
        """Return the statements that store this answer under the call's idempotency key, if any."""
        if self.key is None:
            return []
        return [
            writer.store_answer(
                tool=self.key.tool,
                key=self.key.key,
                arguments_hash=self.key.arguments_hash,
                is_error=is_error,
                answer=body,
                now=now,
            )
        ]


class PlanLock:
    """Context manager that locks and loads a plan, and releases it at the end."""

    def __init__(
        self,
        ctx: RequestContext,
        wanted: PlanRequest,
        step_id: str | None,
        more: tuple[Statement, ...],
        *,
        recalls: bool,
    ) -> None:
        """Select the plan by its id or by one of its steps, and the parts of it to load."""
        self._call = ctx
        self._more = more
        self._wanted = wanted
        self._step_id = step_id
        self._recalls = recalls
        self._lent: TransactionScope | None = None
        self._held: LockedPlan | None = None

    async def __aenter__(self) -> "LockedPlan":
        call, named = self._call, self._wanted.plan_id
        plan_id = id_or_nil(named) if named else await call.plan_of_step(self._step_id or NIL_ID)
        self._which = call.caller.org_id, plan_id.lower()
        call.services.plan_cache.begin_use(self._which)
        try:
            self._held = self._recalled() or await self._loaded(plan_id)
        except BaseException:
            await self._let_go()
            raise
        return self._held

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._let_go()
        locked = self._held
        if locked is None or locked.verified or not isinstance(error, WaybookError):
            return
        if not isinstance(error, Busy | Unavailable):
            # Decided on a cached plan: retry against the locked row before reporting the refusal.
            raise StaleCache from error

    def _recalled(self) -> "LockedPlan | None":
        services = self._call.services
        loaded = services.plan_cache.get(self._which, self._call.session) if self._recalls else None
        now = services.database.now()
        if loaded is None or now is None or not _has_step(loaded.plan, self._step_id):
            return None
        return LockedPlan(self._call, self._which, loaded._replace(now=now).to_decide())

    async def _loaded(self, plan_id: str) -> "LockedPlan":
        call, wanted = self._call, self._wanted._replace(plan_id=plan_id)
        self._lent = call.services.database.org_transaction(call.caller.org_id)
        tx = await self._lent.__aenter__()
        results = await tx.send(*load.lock_statements(wanted, call.key), *self._more)
        if call.key is not None:
            _answered(load.read_answer(results, call.key))
        loaded = require_plan(results, wanted, self._step_id)
        call.services.database.clock.set(loaded.now)
        rest = results[len(results) - len(self._more) :]
        return LockedPlan(call, self._which, loaded.to_decide(), rest, tx)

    async def _let_go(self) -> None:
        self._call.services.plan_cache.end_use(self._which)
        if self._lent is not None:
            await self._lent.__aexit__()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Open transaction, with the results of its first statements."""

    ctx: RequestContext
    tx: Transaction
    now: datetime
    results: Results

    @property
    def decision_context(self) -> DecisionContext:
        """Return the time, actor and id source for the rules."""
        return DecisionContext(now=self.now, actor=self.ctx.actor(), new_id=new_id)

    def write_context(self) -> audit.WriteContext:
        """Return the time and actor for the audit."""
        return audit.WriteContext(now=self.now, actor=self.ctx.actor())

    async def write(self, statements: list[Statement], body: Body) -> Body:
        """Write, store the answer, commit."""
        await self.tx.commit(*statements, *self.ctx.answer_statements(body, self.now))
        return body


ReplyT = TypeVar("ReplyT")


@dataclass(slots=True)
class LockedPlan:
    """Plan until it is written or released: locked, or cached and locked with the write."""

    ctx: RequestContext
    key: PlanKey
    loaded: LoadedPlan
    #: Results of the additional statements.
    results: Results = field(default_factory=list)
    #: None while the plan comes from the cache.
    tx: Transaction | None = None
    #: Whether the plan is known to be current.
    verified: bool = field(init=False)

    def __post_init__(self) -> None:
        self.verified = self.tx is not None

    @property
    def plan(self) -> Plan:
        return self.loaded.plan

    @property
    def decision_context(self) -> DecisionContext:
        """Return the time, actor and id source for the rules."""
        return DecisionContext(now=self.loaded.now, actor=self.ctx.actor(), new_id=new_id)

    async def send(self, *statements: Statement | str) -> Results:
        """Execute more statements in the same transaction.

        Raises:
            StaleCache: there is no transaction yet.
        """
        if self.tx is None:
            raise StaleCache
        return await self.tx.send(*statements)

    async def write(self, decision: Decision[ReplyT], body: Body, *more: Statement) -> Body:
        """Write the decision and more statements, store the answer, commit; return the body.

        Raises:
            Refused: the decision is a refusal; what it records has been written.
        """
        call, now, refusal = self.ctx, self.loaded.now, decision.refusal
        write_context = audit.WriteContext(now=now, actor=call.actor(), head=self.loaded.head)
        written = writer.statements(self.plan, decision, write_context)
        answer = body if refusal is None else cast("Body", refusal.as_json())
        answer_statements = call.answer_statements(answer, now, is_error=refusal is not None)
        notifications = plan_notification_statements(
            call.services, call.caller, self.plan, decision.plan, write_context
        )
        await self._commit(
            [
                *written.statements,
                *(more if refusal is None else ()),
                *notifications,
                *answer_statements,
            ]
        )
        if notifications:
            call.services.delivery_requested.set()
        call.services.plan_cache.put(self.key, LoadedPlan(decision.plan, now, written.head))
        if written.head is not self.loaded.head:
            moved = decision.plan.status is not self.plan.status
            event = ChangeEvent(PLAN, self.plan.id, written.head.seq, moved)
            call.services.bus.publish(self.key[0], event)
        if refusal is not None:
            raise refusal
        for step_id in decision.touched:
            call.cache_step_plan(step_id, self.plan.id)
        return body

    async def _commit(self, statements: list[Statement]) -> None:
        if self.tx is not None:
            await self.tx.commit(*statements)
            return
        services = self.ctx.services
        try:
            async with services.database.org_transaction(self.ctx.caller.org_id) as tx:
                results = await tx.commit(
                    load.lock_if_unchanged_statement(self.loaded), *statements
                )
        except StaleCache:
            services.plan_cache.mark_contended(self.key)
            raise
        self.verified = True
        services.database.clock.set(results[0][0][1])


def _answered(stored: StoredAnswer | None) -> None:
    if stored is not None:
        raise StoredAnswerFound(stored)
