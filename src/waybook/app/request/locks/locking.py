"""Locks a plan, run or org, computes its change, and commits the change with the reply.

The first round trip to the database locks and loads the rows, and the last one writes and commits.
If the plan or run is cached, the first round trip is not needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from waybook.accounts.model import hash_token
from waybook.app.request.access import cache_steps, require_plan
from waybook.app.request.caller import plan_url, review_url, run_url
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.core.agent_names import name_of
from waybook.core.decision_context import DecisionContext
from waybook.core.events import PLAN, ChangeEvent, Notification, NotificationKind
from waybook.core.ids import id_or_nil, is_id
from waybook.errors import Busy, Refused, Unavailable, WaybookError
from waybook.json_values import Body, non_empty
from waybook.plan.draft import Decision
from waybook.plan.model import Plan, StepId, StepStatus, StepText
from waybook.plan.progress import plan_notifications
from waybook.run.model import Job
from waybook.store import calls, deliveries, links
from waybook.store.audit import ChainHead, WriteContext
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import (
    DroppedDecision,
    KeyConflict,
    Message,
    Results,
    StaleCache,
)
from waybook.store.driver.database import Transaction
from waybook.store.driver.queries import Statement, new_id, new_uuid
from waybook.store.links import LinkKind
from waybook.store.plans import load, refresh, writer
from waybook.store.plans.cache import PlanCache
from waybook.store.plans.load import LoadedPlan, PlanRequest

_REVIEW_KINDS: Final = frozenset(
    {NotificationKind.REVIEW_REQUESTED, NotificationKind.REVIEW_OVERDUE}
)


def notification_statements(
    ctx: RequestContext, notifications: Iterable[Notification], write_context: WriteContext
) -> list[Statement]:
    """Return the statements that store those notifications that the operator has enabled."""
    enabled = ctx.services.notification_events
    if not enabled:
        return []
    return [
        statement
        for notification in notifications
        if notification.kind in enabled
        for statement in store_notification(ctx, notification, new_uuid(), write_context)
    ]


def store_notification(
    ctx: RequestContext,
    notification: Notification,
    notification_id: str,
    write_context: WriteContext,
) -> list[Statement]:
    """Return the statements that store a notification and, if configured, its action links."""
    actor, base_url = write_context.actor, ctx.services.base_url
    subject_id = notification.subject_id
    data: Body = {
        "orgId": str(ctx.caller.org_id),
        "by": non_empty(
            user=actor.user,
            channel=str(actor.channel),
            agent=name_of(None, actor.session, ctx.caller.client) or None,
        ),
    }
    if notification.kind in _REVIEW_KINDS:
        data["reviewUrl"] = review_url(subject_id, base_url)
    subject_url = plan_url if notification.kind.startswith("plan.") else run_url
    data["url"] = subject_url(subject_id, base_url) if subject_id else base_url
    data |= notification.data
    statement = deliveries.insert_statement(
        notification_id, notification._replace(data=data), write_context.now
    )
    configured, review = ctx.services.action_links, notification.data.get("review")
    if configured is None:
        return [statement]
    if notification.kind is NotificationKind.AWAITING_FEEDBACK:
        stage = str(notification.data["stageSlug"])
        target: Body = {"kind": LinkKind.FEEDBACK, "run_id": subject_id, "stage": stage}
    elif isinstance(review, dict):
        review_id = str(review["reviewId"])
        target = {"kind": LinkKind.REVIEW, "plan_id": subject_id, "review_id": review_id}
    else:
        return [statement]
    inserts = links.insert_action_link(
        target,
        id=notification_id,
        hash=hash_token(configured.secret(notification_id)),
        for_user=configured.reviewer,
        needs_account=configured.needs_account,
        now=write_context.now,
        expires_at=write_context.now + configured.lifetime,
    )
    return [statement, *inserts]


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
    #: Notifications of a comment. None for changes whose notifications follow from the states.
    notifications: Sequence[Notification] | None = None


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
        moved = plan.status is not before.status or proposal.notifications is not None
        notifications = (*plan_notifications(before, plan), *(proposal.notifications or ()))

        def remember() -> None:
            cached = plan
            if self._missing_texts:
                cached = plan._replace(texts={**self._missing_texts, **plan.texts})
            self._cache.put(self._key, LoadedPlan(cached, self.now, head))
            for step_id in decision.touched:
                ctx.cache_step_plan(step_id, plan.id)

        return Written(
            statements,
            notification_statements(ctx, notifications, write_context),
            ChangeEvent(PLAN, plan.id, head.seq, moved) if head is not self.head else None,
            remember,
            decision.refusal,
        )
