"""State machine that makes each call twice: by the dispatcher and by the rules (`waybook.plan`)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from org_env import AgentClient, Body, OrgEnv, make_env
from plan_invariants import check_state, known_rows, rows_of
from postgres_servers import ServerDatabase
from waybook.app.request.caller import Answer
from waybook.core.changes import Rows
from waybook.core.decision_context import Channel, DecisionContext
from waybook.errors import WaybookError
from waybook.plan.draft import Decision
from waybook.plan.model import Plan, StepId
from waybook.store.audit import ChainHead
from waybook.store.plans import refresh
from waybook.store.plans.load import LoadedPlan, PlanRequest

T = TypeVar("T")


class RulesComparison(RuleBasedStateMachine):
    """Base class of state machines that compare the stored plan with that of the plan rules."""

    def __init__(self, place: ServerDatabase, fresh: deque[str]) -> None:
        super().__init__()
        self.fresh = fresh
        self.runner = asyncio.Runner()
        self.opened: AbstractAsyncContextManager[OrgEnv] = make_env(place, pool_size=1)
        self.world: OrgEnv = self.wait(self.opened.__aenter__())
        self.elsewhere = self.world.agent.elsewhere()
        self.are_swapped = False
        #: Plan as read from the database after the previous call.
        self.copy_before: LoadedPlan | None = None
        self.plan: Plan
        #: Rows of the plan at each time, by the number of the last audit entry at that time.
        self.history: dict[int, Rows] = {}

    def teardown(self) -> None:
        try:
            self.wait(self.opened.__aexit__(None, None, None))
        finally:
            self.runner.close()

    def wait(self, work: Awaitable[T]) -> T:
        async def waiting() -> T:
            return await work

        return self.runner.run(waiting())

    def agent(self, user: str, channel: Channel = Channel.MCP) -> AgentClient:
        """Return an agent of this user; Bob's calls use other caches, as in another process."""
        at = self.elsewhere if (user == "bob") is not self.are_swapped else self.world.agent
        return at.acting_as(user, channel)

    def moment(
        self, user: str, session: str | None, channel: Channel = Channel.MCP
    ) -> DecisionContext:
        actor = self.agent(user, channel).caller.actor(session)
        return DecisionContext(self.world.clock.now, actor, self.fresh.popleft, self.fresh.popleft)

    def both(
        self,
        who: tuple[str, str | None, Channel],
        tool_call: tuple[str, Body],
        decided: Callable[[DecisionContext], Decision[Any]],
    ) -> tuple[Body, Any]:
        """Make a tool call, apply the plan rule for it, and check that the error codes are equal.

        Return the reply of the tool and the reply of the rule.
        """
        user, session, channel = who
        tool, arguments = tool_call
        self.fresh.clear()
        named = {**arguments, "sessionId": session} if session else arguments
        answer = self.wait(self.agent(user, channel).ask(tool, named))
        decision: Decision[Any] | None
        code: str | None
        try:
            decision = decided(self.moment(user, session, channel))
        except WaybookError as refused:
            decision, code = None, refused.code
        else:
            code = decision.refusal.code if decision.refusal else None
            self.keep(decision)
        assert _code(answer) == code, answer.body
        return answer.body, decision.reply if decision and not code else None

    def keep(self, decision: Decision[Any]) -> None:
        """Expect the plan of this decision from now on, with heartbeats for its `touched` steps."""
        now = self.world.clock.now
        seen = set(decision.touched)
        self.plan = decision.plan._replace(
            steps=tuple(
                s._replace(last_seen_at=now) if s.id in seen else s for s in decision.plan.steps
            )
        )

    def step_id(self, place: int) -> StepId:
        return self.plan.steps[place % len(self.plan.steps)].id

    @invariant()
    def changes_applied_to_a_copy_result_in_the_stored_plan(self) -> None:
        """Check that applying the new audit entries to `copy_before` gives the stored plan."""
        database, org_id = self.world.database, self.world.agent.org_id
        wanted = PlanRequest(plan_id=self.plan.id, review=False)
        (rows,) = self.wait(database.read_org(org_id, refresh.plan_statement(wanted)))
        now, before = refresh.read_plan(rows, wanted), self.copy_before
        if now and before and before.plan.id == now.plan.id:
            (rows,) = self.wait(database.read_org(org_id, refresh.changes_statement(before)))
            after = refresh.apply_entries(before, rows)
            assert after is None or comparable(after) == comparable(now)
            assert after is not None or now.head != before.head
        self.copy_before = now

    @invariant()
    def the_rows_are_the_plan(self) -> None:
        if not hasattr(self, "plan"):
            return
        check_state(self.plan)
        org_id = self.world.agent.org_id
        rows = self.wait(self.world.stored(org_id, self.plan.id))
        self.history[self.plan.seq] = rows
        stored = known_rows(rows)
        expected = rows_of(self.plan)
        for entity in ("plan", "step", "condition"):
            assert stored.get(entity, {}) == expected.get(entity, {})
        for review_id, row in expected.get("review", {}).items():
            assert stored["review"][review_id] == row


def comparable(loaded: LoadedPlan) -> tuple[Plan, ChainHead]:
    """Return a plan without the fields in which two copies may differ, such as heartbeats."""
    steps = tuple(step._replace(last_seen_at=None) for step in loaded.plan.steps)
    plan = loaded.plan._replace(texts={}, sessions=frozenset(), steps=steps)
    return plan, loaded.head


def _code(answer: Answer) -> str | None:
    error: Any = answer.body.get("error")
    return str(error["code"]) if error else None
