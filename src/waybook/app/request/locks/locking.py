"""Locks a plan, run or org, computes its change, and commits the change with the reply.

The first round trip to the database locks and loads the rows, and the last one writes and commits.
If the plan or run is cached, the first round trip is not needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.core.decision_context import DecisionContext
from waybook.core.events import ChangeEvent
from waybook.errors import Busy, Refused, Unavailable, WaybookError
from waybook.json_values import Body
from waybook.run.model import Job
from waybook.store import calls
from waybook.store.audit import ChainHead, WriteContext
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Message, Results
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, new_id, new_uuid
from waybook.store.driver.wire import DroppedDecision, KeyConflict, StaleCache

#: Up to three tries can fail, each for a different reason, before the fourth succeeds.
MAX_ATTEMPTS = 4

DecisionT = TypeVar("DecisionT")
DecisionT_co = TypeVar("DecisionT_co", covariant=True)


class Proposal(NamedTuple, Generic[DecisionT_co]):
    """Changes to write and the reply to the call, which are committed together."""

    decision: DecisionT_co
    body: Body
    more: Sequence[Statement] = ()
    jobs: Sequence[Job] = ()
    #: True if the reply is final. Only a final reply is stored under the idempotency key.
    is_answer: bool = True


#: Function that returns a proposal if there is something to write, a reply if not, or None if the
#: cached copy lacks data.
Decide: TypeAlias = Callable[[], Awaitable[Proposal[DecisionT] | Body | None]]


class Written(NamedTuple):
    statements: list[Statement]
    notifications: Sequence[Statement] = ()
    event: ChangeEvent | None = None
    remember: Callable[[], None] | None = None
    #: Error to raise after the commit, if any.
    refusal: Refused | None = None


class Locked(ABC, Generic[DecisionT]):
    """Plan, run or org that a call changes: locked from the start, or only for the write."""

    now: datetime
    head = ChainHead()
    results: Results
    #: Transaction that holds the lock. Not set if a cached copy is used.
    tx: Transaction
    is_cached = False
    _scope: Transaction | None = None

    def __init__(self, ctx: RequestContext, *more: Statement) -> None:
        self.ctx, self.actor = ctx, ctx.actor()
        self.more = more
        self._written_before: list[Written] = []

    @abstractmethod
    def written(self, proposal: Proposal[DecisionT]) -> Written: ...

    def statements(self, key: Key | None) -> Message:
        # Lock before reading, so that the call sees every change that was committed while it waited
        # for the lock.
        return [*self.more, "select app_now()", *([calls.lookup_statement(key)] if key else ())]

    def stored_answer(self, results: Results, key: Key) -> StoredAnswer | None:
        return calls.read_answer(results[-1][0], key) if results[-1] else None

    async def read(self, results: Results, tx: Transaction) -> None:
        count = len(self.more)
        self.tx, self.results = tx, results[:count]
        self.now = results[count][0][0]

    async def enter(
        self, key: Key | None = None, *, use_cache: bool = False
    ) -> StoredAnswer | None:
        """Lock and load the plan, run or org, unless the cached copy can be used.

        If this call repeats an earlier call, return the stored answer of the earlier call.
        """
        del use_cache
        self._written_before.clear()
        self._scope = self.ctx.transaction()
        tx = await self._scope.__aenter__()
        results = await tx.send(*self.statements(key))
        stored = self.stored_answer(results, key) if key else None
        if stored is None:
            await self.read(results, tx)
        return stored

    async def leave(self) -> None:
        scope, self._scope = self._scope, None
        if scope is not None:
            await scope.__aexit__()

    async def __aenter__(self) -> Self:
        try:
            await self.enter()
        except BaseException:
            await self.leave()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    @property
    def context(self) -> DecisionContext:
        is_simulated = self.ctx.services.database.is_simulated
        return DecisionContext(self.now, self.actor, new_id, new_uuid, is_simulated=is_simulated)

    @property
    def write_context(self) -> WriteContext:
        return WriteContext(self.now, self.actor, self.head)

    async def send(self, *statements: Statement | str) -> Results:
        return await self.tx.send(*statements)

    async def write(self, decision: DecisionT, *jobs: Job) -> None:
        """Commit a change under the lock, without storing an answer for retries.

        Raises:
            Refused: the call is refused; the audit entries of the refusal are committed.
        """
        await self.commit(Proposal(decision, {}, jobs=jobs, is_answer=False))

    async def commit(self, proposal: Proposal[DecisionT]) -> None:
        """Write the change, store the answer for retries, and commit, in one round trip.

        Raises:
            Refused: the call is refused; the audit entries of the refusal are committed.
            StaleCache: the cached copy was outdated; nothing was written.
            KeyConflict: a row with the same idempotency key or id exists; nothing was written.
            DroppedDecision: an earlier change, on which this one builds, was not committed.
        """
        written = self.written(proposal)
        on_commit = partial(self._after_commit, (*self._written_before, written))
        await self.send_last(self._all_statements(proposal, written), on_commit)
        if written.refusal is not None:
            raise written.refusal

    def _after_commit(self, parts: Sequence[Written]) -> None:
        services = self.ctx.services
        for written in parts:
            if written.notifications:
                services.delivery_requested.add(self.ctx.caller.org_id)
            if written.remember is not None:
                written.remember()
            if written.event is not None:
                services.bus.publish(self.ctx.caller.org_id, written.event)

    def _all_statements(self, proposal: Proposal[DecisionT], written: Written) -> list[Statement]:
        refusal = written.refusal
        statements = [*written.statements, *(() if refusal else proposal.more)]
        statements += written.notifications
        if proposal.is_answer and self.ctx.key is not None:
            body = proposal.body if refusal is None else cast("Body", refusal.as_json())
            is_error = refusal is not None
            statements.append(calls.store_answer(self.ctx.key, body, self.now, is_error=is_error))
        return statements

    async def send_last(self, statements: list[Statement], on_commit: Callable[[], None]) -> None:
        await self.tx.commit(*statements)
        on_commit()

    def mark_stale(self) -> None:
        """Mark the cached plan or run as outdated."""


async def update(locked: Locked[DecisionT], decide: Decide[DecisionT]) -> ToolReply:
    """Load a plan, run or org, compute its change, commit the change, and return the reply.

    The first try may use the cached copy; later tries lock the rows. A repeated call gets the
    stored answer of the first call.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            stored = await locked.enter(locked.ctx.key, use_cache=attempt == 0)
            if stored is not None:
                return stored
            try:
                proposal = await decide()
            except WaybookError as error:
                # The error may be due to an outdated cached copy, so try again with locked rows.
                if not locked.is_cached or isinstance(error, Busy | Unavailable):
                    raise
                continue
            if isinstance(proposal, Proposal):
                await locked.commit(proposal)
                return proposal.body
            if proposal is not None:
                return proposal
        except StaleCache:
            locked.mark_stale()
        except (KeyConflict, DroppedDecision):
            continue  # The next try finds the existing row, or the committed state.
        finally:
            await locked.leave()
    raise RuntimeError(f"the change was not committed in {MAX_ATTEMPTS} tries")


class OpenTransaction(Locked[Written]):
    """A transaction that locks no plan, run or org."""

    def written(self, proposal: Proposal[Written]) -> Written:
        return proposal.decision
