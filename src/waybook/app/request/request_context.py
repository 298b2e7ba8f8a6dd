"""The request context of a tool call: its caller, its idempotency key, and the services."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from waybook.app.request.caller import Caller
from waybook.app.request.services import Services
from waybook.core.decision_context import Actor
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction, pending_check
from waybook.store.driver.group_commit import Call
from waybook.store.driver.queries import Statement, is_uuid

NIL_UUID = "00000000-0000-0000-0000-000000000000"
LIST_PLANS = NextCall("list_active_plans", {}, "List the open plans.")
LIST_WORKFLOWS = NextCall("list_dags", {}, "List the workflows and runs.")
CLAIM_JOB = NextCall("get_next_job", {}, "Claim a job.")


def uuid_or_nil(row_id: str) -> str:
    """Return the id if it is a UUID. Otherwise, return a UUID that no row has."""
    return row_id if is_uuid(row_id) else NIL_UUID


def not_found(what: str, next_call: NextCall = LIST_PLANS) -> NotFound:
    return NotFound(f"there is no {what} with this id here", next_call=next_call)


ToolReply: TypeAlias = Body | StoredAnswer


@dataclass(slots=True, kw_only=True)
class RequestContext:
    services: Services
    caller: Caller
    session: str | None = None
    #: Idempotency key of the call, if it has one. The answer is stored under this key.
    key: Key | None = None
    operations: list[int] = field(default_factory=list, compare=False)

    def actor(self) -> Actor:
        return self.caller.actor(self.session)

    async def read(self, *statements: Statement | str) -> Results:
        return await self.services.database.read_org(self.caller.org_id, *statements)

    async def write_and_read(self, *statements: Statement) -> Results:
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
        """Execute statements on a plan or run, and commit, in one message to the database.

        Concurrent calls of the org may share the transaction; see `GroupCommit.commit`.
        """
        org_id, database = self.caller.org_id, self.services.database
        check = pending_check(org_id)
        if check is not None:
            statements = [check.statement, *statements]
        call = Call(org_id, aggregate_id, statements, on_commit, waits, is_read)
        if check is None:
            return await database.commit(call)
        with check:
            return (await database.commit(call))[1:]

    async def read_in_group(self, aggregate_id: str, *statements: Statement) -> Results:
        """Read rows of a plan in one message. Concurrent calls of the org may share the message."""
        return await self.commit(
            aggregate_id, [*statements], lambda: None, waits=True, is_read=True
        )

    def transaction(self) -> Transaction:
        return self.services.database.org_transaction(self.caller.org_id)

    def cache_step_plan(self, step_id: str, plan_id: str) -> None:
        self.services.step_parents.put(self.caller.org_id, step_id, plan_id)
