"""Request context: the caller of one tool call, its idempotency key, and the services it uses."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from waybook.app.request.caller import Caller
from waybook.app.request.lookups import id_or_nil, not_found, require_plan
from waybook.app.request.services import Services
from waybook.core.decision_context import Actor
from waybook.json_values import Body
from waybook.store.calls import Key, StoredAnswer
from waybook.store.driver.connection import Results
from waybook.store.driver.database import TransactionScope
from waybook.store.driver.queries import Statement, first_value
from waybook.store.plans import load, writer
from waybook.store.plans.load import LoadedPlan, PlanRequest

#: Reply of a tool, or the stored answer to a repeated call.
ToolReply: TypeAlias = Body | StoredAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    services: Services
    caller: Caller
    session: str | None = None
    key: Key | None = None
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
        async with self.transaction() as tx:
            return await tx.commit(*statements)

    def transaction(self) -> TransactionScope:
        """Return a transaction confined to the org; it is rolled back unless committed."""
        return self.services.database.org_transaction(self.caller.org_id)

    async def load_plan(self, wanted: PlanRequest, *more: Statement) -> tuple[LoadedPlan, Results]:
        """Return a plan, unlocked, and the results of more statements from the same snapshot."""
        statements = load.snapshot_statements(wanted)
        results = await self.read(*statements, *more)
        return require_plan(results[: len(statements)], wanted), results[len(statements) :]

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
        plan_id: str = first_value(rows)
        self.cache_step_plan(step_id, plan_id)
        return plan_id

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
