"""One call on its way through: who asks, and the transaction it happens in.

A use case gets a `Call`, opens what it needs, decides, and writes. The lock comes first, the
stored answer to a repeated call second, the load third, all in one message.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar, cast

from waybook.errors import Busy, NextCall, NotFound, Unavailable, WaybookError
from waybook.plan.decision import Decision
from waybook.plan.model import Plan
from waybook.record.moment import Actor, Json, Moment
from waybook.record.news import PLAN, News
from waybook.store import idempotency, ledger, plans
from waybook.store.database import Lent, Outdated, Results, Tx
from waybook.store.idempotency import Key, StoredAnswer
from waybook.store.ids import is_id, new_id
from waybook.store.memory import Which
from waybook.store.plans import LoadedPlan, Wanted
from waybook.store.sql import Statement
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House
from waybook.usecases.telling import told_of_plan

Body = dict[str, Json]
#: An id that is nobody's.
NOBODY = "00000000-0000-0000-0000-000000000000"


class Answered(Exception):
    """The call was answered before; here is that answer."""

    def __init__(self, answer: StoredAnswer) -> None:
        super().__init__()
        self.answer = answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    house: House
    caller: Caller
    session: str | None = None
    key: Key | None = None
    #: Whether it may rely on what is remembered; if that proves wrong, it is carried out without.
    recalls: bool = True

    def actor(self) -> Actor:
        """The caller as the rules and the audit know it."""
        return self.caller.actor(self.session)

    async def read(self, *statements: Statement | str) -> Results:
        """Look at the org as it is now, in one snapshot."""
        return await self.house.database.read(self.caller.org_id, *statements)

    async def touch(self, *statements: Statement) -> Results:
        """Note something that is no decision, and look at more beside it, in one message."""
        async with self.house.database.tenant(self.caller.org_id) as tx:
            return await tx.commit(*statements)

    async def look(self, wanted: Wanted, *more: Statement) -> tuple[LoadedPlan, Results]:
        """A plan as it is now, unlocked, and whatever else is asked in the same snapshot."""
        asked = plans.look_statements(wanted)
        found = await self.read(*asked, *more)
        return found_plan(found[: len(asked)], wanted), found[len(asked) :]

    @asynccontextmanager
    async def open(self, *statements: Statement | str) -> AsyncIterator["Opened"]:
        """A transaction without a plan to lock, its first statements answered."""
        async with self.house.database.tenant(self.caller.org_id) as tx:
            asked = [idempotency.lookup_statement(self.key)] if self.key else []
            # A lock comes first: what is read after the wait must be seen after it.
            results = await tx.send(*statements, "select app_now()", *asked)
            found, (now, *stored) = results[: len(statements)], results[len(statements) :]
            if self.key is not None and stored[0]:
                _answered(idempotency.read_answer(stored[0][0], self.key))
            yield Opened(self, tx, now[0][0].astimezone(UTC), found)

    def locked(
        self,
        *more: Statement,
        plan_id: str | None = None,
        step_id: str | None = None,
        texts: tuple[str, ...] = (),
        candidates: bool = False,
        review: bool = True,
        recalls: bool = False,
    ) -> "Locking":
        """A plan, locked and loaded: what is not needed is not asked for, and `more` is.

        With `recalls` it may come from memory, and is locked with the write.

        Raises:
            NotFound: it is not there, or not this org's.
            Answered: the call was carried out before.
        """
        wanted = Wanted(
            plan_id=plan_id or "",
            texts=tuple([text for text in (*texts, step_id or "") if is_id(text)]),
            candidates=candidates,
            holder=self.actor().holder,
            review=review,
        )
        return Locking(self, wanted, step_id, more, recalls=recalls and self.recalls)

    async def plan_of(self, step_id: str) -> str:
        """The plan this step belongs to.

        Raises:
            NotFound: there is no such step.
        """
        step_id = known(step_id).lower()
        remembered = self.house.whereabouts.plan_of(self.caller.org_id, step_id)
        if remembered is not None:
            return remembered
        (rows,) = await self.read(plans.plan_of_step_statement(step_id))
        if not rows:
            raise not_found("step")
        self.remember(step_id, rows[0][0])
        return str(rows[0][0])

    def remember(self, step_id: str, plan_id: str) -> None:
        """Note where a step is, for whoever names it next."""
        self.house.whereabouts.remember(self.caller.org_id, step_id, plan_id)

    def keep(self, body: Body, now: datetime, *, is_error: bool = False) -> list[Statement]:
        """The statement that keeps this answer for a repeated call, if it may be repeated."""
        if self.key is None:
            return []
        return [
            ledger.keep_answer(
                tool=self.key.tool,
                key=self.key.key,
                arguments_hash=self.key.arguments_hash,
                is_error=is_error,
                answer=body,
                now=now,
            )
        ]


class Locking:
    """A plan on its way into our hands, and out of them again."""

    def __init__(
        self,
        call: Call,
        wanted: Wanted,
        step_id: str | None,
        more: tuple[Statement, ...],
        *,
        recalls: bool,
    ) -> None:
        """Which plan, named by itself or by one of its steps, and how much of it."""
        self._call = call
        self._more = more
        self._wanted = wanted
        self._step_id = step_id
        self._recalls = recalls
        self._lent: Lent | None = None
        self._held: Held | None = None

    async def __aenter__(self) -> "Held":
        call, named = self._call, self._wanted.plan_id
        plan_id = known(named) if named else await call.plan_of(self._step_id or NOBODY)
        self._which = call.caller.org_id, plan_id.lower()
        call.house.memory.enter(self._which)
        try:
            self._held = self._recalled() or await self._loaded(plan_id)
        except BaseException:
            await self._let_go()
            raise
        return self._held

    async def __aexit__(self, _: object, fault: BaseException | None, __: object) -> None:
        await self._let_go()
        held = self._held
        if held is None or held.verified or not isinstance(fault, WaybookError):
            return
        if not isinstance(fault, Busy | Unavailable):
            # A refusal that rests on memory alone is none yet.
            raise Outdated from fault

    def _recalled(self) -> "Held | None":
        house = self._call.house
        loaded = house.memory.recall(self._which, self._call.session) if self._recalls else None
        now = house.database.now()
        if loaded is None or now is None or not _has_step(loaded.plan, self._step_id):
            return None
        return Held(self._call, self._which, loaded._replace(now=now).to_decide())

    async def _loaded(self, plan_id: str) -> "Held":
        call, wanted = self._call, self._wanted._replace(plan_id=plan_id)
        self._lent = call.house.database.tenant(call.caller.org_id)
        tx = await self._lent.__aenter__()
        found = await tx.send(*plans.lock_statements(wanted, call.key), *self._more)
        if call.key is not None:
            _answered(plans.read_answer(found, call.key))
        loaded = found_plan(found, wanted, self._step_id)
        call.house.database.clock.set(loaded.now)
        rest = found[len(found) - len(self._more) :]
        return Held(call, self._which, loaded.to_decide(), rest, tx)

    async def _let_go(self) -> None:
        self._call.house.memory.leave(self._which)
        if self._lent is not None:
            await self._lent.__aexit__()


@dataclass(frozen=True, slots=True)
class Opened:
    """An open transaction, and what its first statements found."""

    call: Call
    tx: Tx
    now: datetime
    found: Results

    @property
    def moment(self) -> Moment:
        """What the rules are told of the world."""
        return Moment(now=self.now, actor=self.call.actor(), new_id=new_id)

    def hand(self) -> ledger.Hand:
        """Who writes here."""
        return ledger.Hand(now=self.now, actor=self.call.actor())

    async def write(self, statements: list[Statement], body: Body) -> Body:
        """Write, keep the answer, commit."""
        await self.tx.commit(*statements, *self.call.keep(body, self.now))
        return body


ReplyT = TypeVar("ReplyT")


@dataclass(slots=True)
class Held:
    """A plan until it is written or let go: locked, or remembered and locked with the write."""

    call: Call
    which: Which
    loaded: LoadedPlan
    #: What else was asked for found.
    found: Results = field(default_factory=list)
    #: None while the plan is only remembered.
    tx: Tx | None = None
    #: Whether the plan is known to be so.
    verified: bool = field(init=False)

    def __post_init__(self) -> None:
        self.verified = self.tx is not None

    @property
    def plan(self) -> Plan:
        return self.loaded.plan

    @property
    def moment(self) -> Moment:
        """What the rules are told of the world."""
        return Moment(now=self.loaded.now, actor=self.call.actor(), new_id=new_id)

    async def send(self, *statements: Statement | str) -> Results:
        """Ask for more, in the same transaction.

        Raises:
            Outdated: there is no transaction yet.
        """
        if self.tx is None:
            raise Outdated
        return await self.tx.send(*statements)

    async def write(self, decision: Decision[ReplyT], body: Body, *more: Statement) -> Body:
        """Write what was decided and what more there is, keep the answer, commit; then answer.

        Raises:
            Refused: the decision refuses, after what it keeps has been written.
        """
        call, now, refusal = self.call, self.loaded.now, decision.refusal
        hand = ledger.Hand(now=now, actor=call.actor(), head=self.loaded.head)
        written = ledger.statements(self.plan, decision, hand)
        answer = body if refusal is None else cast("Body", refusal.as_json())
        kept = call.keep(answer, now, is_error=refusal is not None)
        told = told_of_plan(call.house, call.caller, self.plan, decision.plan, hand)
        await self._commit([*written.statements, *(more if refusal is None else ()), *told, *kept])
        if told:
            call.house.to_deliver.set()
        call.house.memory.keep(self.which, LoadedPlan(decision.plan, now, written.head))
        if written.head is not self.loaded.head:
            moved = decision.plan.status is not self.plan.status
            news = News(PLAN, self.plan.id, written.head.seq, moved)
            call.house.bus.publish(self.which[0], news)
        if refusal is not None:
            raise refusal
        for step_id in decision.touched:
            call.remember(step_id, self.plan.id)
        return body

    async def _commit(self, statements: list[Statement]) -> None:
        if self.tx is not None:
            await self.tx.commit(*statements)
            return
        house = self.call.house
        try:
            async with house.database.tenant(self.call.caller.org_id) as tx:
                found = await tx.commit(plans.still_so_statement(self.loaded), *statements)
        except Outdated:
            house.memory.distrust(self.which)
            raise
        self.verified = True
        house.database.clock.set(found[0][0][1])


def known(row_id: str) -> str:
    """An id we could have given out; any other text is an id that nobody has."""
    return row_id if is_id(row_id) else NOBODY


def _answered(stored: StoredAnswer | None) -> None:
    if stored is not None:
        raise Answered(stored)


def found_plan(found: Results, wanted: Wanted, step_id: str | None = None) -> LoadedPlan:
    """The plan that was loaded, with the step that was named, if one was.

    Raises:
        NotFound: it is not there; or the step is not there any more.
    """
    loaded = plans.read_plan(found, wanted)
    if loaded is None:
        raise not_found("plan")
    if not _has_step(loaded.plan, step_id):
        raise not_found("step")
    return loaded


def _has_step(plan: Plan, step_id: str | None) -> bool:
    return step_id is None or any(step.id == step_id.lower() for step in plan.steps)


def not_found(what: str) -> NotFound:
    """The answer for an id that is not there, the same whosever it may be."""
    return NotFound(
        f"there is no {what} with this id here",
        next_call=NextCall("list_active_plans", {}, "see the plans there are"),
    )
