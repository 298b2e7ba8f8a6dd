"""The request context of a tool call: its caller, its idempotency key, and the services."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from waybook.app.request.caller import Caller
from waybook.app.request.services import Services
from waybook.core.decision_context import Actor
from waybook.core.short_ids import IdKind
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body
from waybook.plan.model import Plan
from waybook.plan.states import TERMINAL_STEP
from waybook.store.calls import Key, StoredAnswer, store_answer
from waybook.store.driver.connection import Results
from waybook.store.driver.credential_check import pending_check
from waybook.store.driver.database import TransactionScope
from waybook.store.driver.group_commit import Call
from waybook.store.driver.queries import Statement, first_value, is_id
from waybook.store.plans import load
from waybook.store.plans.load import LoadedPlan, PlanRequest

NIL_ID = "00000000-0000-0000-0000-000000000000"


def id_or_nil(row_id: str) -> str:
    """Return the id if it is a valid UUID, or else an id that no row has."""
    return row_id if is_id(row_id) else NIL_ID


def require_plan(results: Results, wanted: PlanRequest, step_id: str | None = None) -> LoadedPlan:
    """Return the loaded plan. If `step_id` is given, the plan must have this step.

    Raises:
        NotFound: the plan does not exist, or the step was removed.
    """
    loaded = load.read_plan(results, wanted)
    if loaded is None:
        raise not_found("plan")
    if not _has_step(loaded.plan, step_id):
        raise not_found("step")
    return loaded


def _has_step(plan: Plan, step_id: str | None) -> bool:
    return step_id is None or any(step.id == step_id.lower() for step in plan.steps)


def _do_nothing() -> None: ...


def not_found(what: str) -> NotFound:
    return NotFound(
        f"there is no {what} with this id here",
        next_call=NextCall("list_active_plans", {}, "List the open plans."),
    )


#: A new reply, or the stored answer of a repeated call.
ToolReply: TypeAlias = Body | StoredAnswer


@dataclass(slots=True, kw_only=True)
class RequestContext:
    services: Services
    caller: Caller
    session: str | None = None
    #: Key under which the answer is stored. None without an idempotency key, and before ids are
    #: resolved.
    key: Key | None = None
    operations: list[int] = field(default_factory=list, compare=False)
    audited: list[str] = field(default_factory=list, compare=False)

    def actor(self) -> Actor:
        return self.caller.actor(self.session)

    async def read(self, *statements: Statement | str) -> Results:
        return await self.services.database.read_org(self.caller.org_id, *statements)

    async def write_and_read(self, *statements: Statement) -> Results:
        """Execute statements in one transaction and one round trip."""
        async with self.transaction() as tx:
            return await tx.commit(*statements)

    async def commit(
        self,
        aggregate_id: str,
        statements: list[Statement],
        on_commit: Callable[[], None],
        *,
        waits: bool = False,
        is_read: bool = False,
    ) -> Results:
        """Lock this plan or run, write, and commit in one message.

        Concurrent calls of the org may share the transaction. `GroupCommit.commit` describes this
        and the errors.
        """
        org_id, database = self.caller.org_id, self.services.database
        check = pending_check(org_id)
        if check is not None:
            statements = [check.statement, *statements]
        call = Call(org_id, aggregate_id, statements, on_commit, waits, is_read)
        if check is None:
            return await database.commit(call)
        with check.deciding():
            return (await database.commit(call))[1:]

    async def read_in_group(self, aggregate_id: str, *statements: Statement) -> Results:
        """Read rows of a plan in one message, which concurrent calls of the org may share.

        Each statement has its own snapshot. Only the commit of a decision shows whether the rows
        were still current.
        """
        return await self.commit(aggregate_id, [*statements], _do_nothing, waits=True, is_read=True)

    def transaction(self) -> TransactionScope:
        """Return a transaction of the org. It is rolled back unless it is committed."""
        return self.services.database.org_transaction(self.caller.org_id)

    async def load_plan(self, wanted: PlanRequest, *more: Statement) -> tuple[LoadedPlan, Results]:
        """Return a plan without a lock, and the results of `more`, from one snapshot."""
        statements = load.snapshot_statements(wanted)
        results = await self.read(*statements, *more)
        return require_plan(results[: len(statements)], wanted), results[len(statements) :]

    async def plan_of_step(self, step_id: str) -> str:
        """Return the plan that a step belongs to.

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
        plan_id: str = first_value(rows)
        self.cache_step_plan(step_id, plan_id)
        return plan_id

    def cache_step_plan(self, step_id: str, plan_id: str) -> None:
        self.services.step_parents.put(self.caller.org_id, step_id, plan_id)

    def cache_steps(self, plan: Plan) -> None:
        """Cache the ids of a plan's open steps, because later calls may name them."""
        org_id, services = self.caller.org_id, self.services
        open_steps = [step.id for step in plan.steps if step.status not in TERMINAL_STEP]
        # A plan's open steps are cached together, so it is enough to look for the last one.
        if open_steps and services.step_parents.get(org_id, open_steps[-1]) is None:
            for step_id in open_steps:
                self.cache_step_plan(step_id, plan.id)
                services.short_ids.add(org_id, IdKind.STEP, step_id)

    def answer_statements(
        self, body: Body, now: datetime, *, is_error: bool = False
    ) -> list[Statement]:
        """Return the statements that store the answer, if the call has an idempotency key."""
        if self.key is None:
            return []
        return [
            store_answer(
                tool=self.key.tool,
                key=self.key.stored,
                arguments_hash=self.key.arguments_hash,
                is_error=is_error,
                answer=body,
                now=now,
            )
        ]
