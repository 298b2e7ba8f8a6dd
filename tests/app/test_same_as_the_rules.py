"""After calls in any order, the dispatcher has stored exactly the plan that the rules compute.

Each call is made through the dispatcher and applied to the pure rules, with the same time and the
same new ids. After each call, both replies must be equal, and the rows must equal the plan of the
rules.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from full_ids import full_id
from org_env import AgentClient, Body, OrgEnv, make_env, make_step
from plan_invariants import check_state, known_rows, rows_of
from postgres_servers import ServerDatabase
from waybook.app.request import locking
from waybook.app.request.aggregates import LockedPlan
from waybook.app.request.caller import Answer
from waybook.core.changes import Change
from waybook.core.decision_context import Channel, DecisionContext
from waybook.core.replay import Rows, replay
from waybook.core.usage import Usage
from waybook.errors import WaybookError
from waybook.plan import modify as rules
from waybook.plan.copy import CopiedPlan, CopyOptions, copy_plan
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision
from waybook.plan.edit import SetBudget, SetDependencies, SetTitle
from waybook.plan.model import (
    BranchAction,
    Budget,
    DecisionKind,
    NewCondition,
    NewStep,
    Plan,
    StepId,
    StepType,
)
from waybook.plan.next_step import (
    AwaitingReview,
    NothingPending,
    PlanComplete,
    PlanFailed,
    StepReady,
    next_step,
)
from waybook.plan.progress import detect_stall
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.settle import is_new_session, resume_session
from waybook.plan.states import StepStatus
from waybook.plan.submit import Submission, submit, submit_and_take_next
from waybook.store.audit import ChainHead
from waybook.store.driver import queries
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction
from waybook.store.plans import refresh
from waybook.store.plans.load import LoadedPlan, PlanRequest

#: Run these tests on PostgreSQL 15 too: there, each transaction switches to the serving role with
#: `set local role`, and every plan tool must work in that mode.
pytestmark = pytest.mark.every_server

T = TypeVar("T")

SESSIONS = st.sampled_from([None, "a", "b"])
USERS = st.sampled_from(["ann", "bob"])
PLACES = st.integers(0, 5)
LOOK = "Look it up."
#: Kinds of modifications. Most kinds are listed twice and so chosen more often than `cancel`,
#: because canceling the plan ends a test early.
MODIFICATIONS = (
    *("add", "remove", "reverse", "rewrite", "fail", "again", "retry") * 2,
    *("add_repeat", "conditions", "no_conditions") * 2,
    *("title", "no_title", "depend", "depend_on_none", "budget"),
    "cancel",
)
STATUS_OF = {
    StepReady: "step_ready",
    PlanComplete: "plan_complete",
    PlanFailed: "plan_failed",
    AwaitingReview: "awaiting_review",
    NothingPending: "no_pending_steps",
}


def edits(step_id: StepId, place: int) -> dict[str, tuple[Body, rules.Modification]]:
    """Return the modifications that change no status."""
    named = {"stepId": step_id}
    return {
        "title": (
            {"action": "set_title", **named, "title": f"Title {place}"},
            SetTitle(step_id, f"Title {place}"),
        ),
        "no_title": ({"action": "set_title", **named}, SetTitle(step_id, None)),
        "depend": (
            {"action": "set_dependencies", **named, "dependsOn": [place]},
            SetDependencies(step_id, (place,)),
        ),
        "depend_on_none": (
            {"action": "set_dependencies", **named, "dependsOn": []},
            SetDependencies(step_id, ()),
        ),
        "budget": (
            {"action": "set_budget", "budget": {"tokens": place + 1}},
            SetBudget(Budget(tokens=place + 1)),
        ),
    }


class SameAsTheRules(RuleBasedStateMachine):
    def __init__(self, place: ServerDatabase, fresh: deque[str]) -> None:
        super().__init__()
        self.fresh = fresh
        self.runner = asyncio.Runner()
        self.opened: AbstractAsyncContextManager[OrgEnv] = make_env(place, pool_size=1)
        self.world: OrgEnv = self.wait(self.opened.__aenter__())
        self.elsewhere = self.world.agent.elsewhere()
        self.are_swapped = False
        #: Plan as the database contained it after an earlier call.
        self.copy_before: LoadedPlan | None = None
        self.plan: Plan
        #: Stored rows of the plan, by the number of its last audit entry at that time.
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

    # Methods that make each call twice: through the dispatcher and through the rules.

    def agent(self, user: str, channel: Channel = Channel.MCP) -> AgentClient:
        """Return an agent of this user; Ann and Bob are served by different processes."""
        at = self.elsewhere if (user == "bob") is not self.are_swapped else self.world.agent
        return at.acting_as(user, channel)

    def moment(
        self, user: str, session: str | None, channel: Channel = Channel.MCP
    ) -> DecisionContext:
        actor = self.agent(user, channel).caller.actor(session)
        return DecisionContext(now=self.world.clock.now, actor=actor, new_id=self.fresh.popleft)

    def both(
        self,
        who: tuple[str, str | None, Channel],
        tool_call: tuple[str, Body],
        decided: Callable[[DecisionContext], Decision[Any]],
    ) -> tuple[Body, Any]:
        """Make the call and apply the plan rule; return both replies. Refusals must be equal."""
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
        """Keep the decision's plan as the expected plan, with the new heartbeat times."""
        now = self.world.clock.now
        seen = set(decision.touched)
        self.plan = decision.plan._replace(
            steps=tuple(
                s._replace(last_seen_at=now) if s.id in seen else s for s in decision.plan.steps
            ),
        )

    def step_id(self, place: int) -> StepId:
        return self.plan.steps[place % len(self.plan.steps)].id

    # Hypothesis rules that make the calls.

    @initialize(
        steps=st.integers(1, 4),
        branch=st.sampled_from([None, *BranchAction]),
        depends=st.booleans(),
        holders=st.sampled_from([None, 1, 2]),
    )
    def begin(
        self, steps: int, branch: BranchAction | None, *, depends: bool, holders: int | None
    ) -> None:
        """Create a plan; if `depends`, its last step depends on its first step."""
        body = make_step(LOOK, **({} if holders is None else {"maxAttempts": holders}))
        bodies = [body] * steps
        new_step = NewStep(type=StepType.SEARCH, instructions=LOOK, max_attempts=holders)
        new_steps = [new_step] * steps
        if depends and steps > 1:
            bodies[-1] = {**body, "dependsOn": [1]}
            new_steps[-1] = replace(new_step, depends_on=(1,))
        args: Body = {"name": "P", "researchQuestion": "Q?", "steps": bodies}
        conditions: tuple[NewCondition, ...] = ()
        if branch:
            wire, condition = make_branch(branch, target=steps)
            args["branchingConditions"] = [{"afterStepOrder": 1, **wire}]
            conditions = (replace(condition, after_step_order=1),)
        new = NewPlan(
            name="P", research_question="Q?", steps=tuple(new_steps), conditions=conditions
        )
        who = ("ann", None, Channel.MCP)
        self.both(who, ("create_research_plan", args), lambda moment: create(new, moment))

    @rule(user=USERS, session=SESSIONS, another=st.booleans())
    def take(self, user: str, session: str | None, *, another: bool) -> None:
        body, reply = self.both(
            (user, session, Channel.MCP),
            ("get_next_step", {"planId": self.plan.id, "another": another}),
            lambda moment: next_step(self.plan, moment, another=another),
        )
        check_taken(body, reply)

    @precondition(lambda self: self.plan.steps)
    @rule(
        user=USERS,
        session=SESSIONS,
        place=PLACES,
        attempt=st.sampled_from([None, 0, 0, 1]),
        result=st.sampled_from(["found", "branch", ""]),
        take_next=st.booleans(),
    )
    def submit(
        self,
        user: str,
        session: str | None,
        place: int,
        attempt: int | None,
        result: str,
        *,
        take_next: bool,
    ) -> None:
        step = self.plan.step(self.step_id(place))
        sent_attempt = None if attempt is None else step.attempt + attempt
        took = {"inputTokens": 3, "costUsd": 0.1} if result == "found" else {}
        args = {"stepId": step.id, "resultSummary": result, "attempt": sent_attempt, "usage": took}
        usage = Usage(input_tokens=3, cost_micros=100_000) if took else None
        submission = Submission(result_summary=result, attempt=sent_attempt, usage=usage)
        rule_ = submit_and_take_next if take_next else submit
        body, done = self.both(
            (user, session, Channel.MCP),
            ("submit_step_result", {**args, "takeNext": take_next}),
            lambda moment: rule_(self.plan, step.id, submission, moment),
        )
        if done:
            submitted = body["submitted"] if take_next else body
            assert body["planStatus"] == self.plan.status
            assert submitted["stepStatus"] == done.step.status
            if take_next:
                check_taken(body, done.following)

    @precondition(lambda self: self.plan.steps)
    @rule(user=USERS, session=SESSIONS, place=PLACES, result=st.sampled_from([None, "branch"]))
    def ask(self, user: str, session: str | None, place: int, result: str | None) -> None:
        step_id = self.step_id(place)
        args = {"stepId": step_id, "summary": "Right?", "resultSummary": result}
        request = ReviewRequest(summary="Right?", result_summary=result)
        self.both(
            (user, session, Channel.MCP),
            ("request_user_review", args),
            lambda moment: request_review(self.plan, step_id, request, moment),
        )

    @rule(
        user=USERS,
        session=SESSIONS,
        kind=st.sampled_from(DecisionKind),
        channel=st.sampled_from([Channel.MCP, Channel.DASHBOARD]),
    )
    def decide(self, user: str, session: str | None, kind: DecisionKind, channel: Channel) -> None:
        args = {"planId": self.plan.id, "decision": str(kind), "feedback": "So."}
        self.both(
            (user, session, channel),
            ("submit_user_decision", args),
            lambda moment: decide(self.plan, kind, moment, feedback="So."),
        )

    @precondition(lambda self: self.plan.steps)
    @rule(
        user=USERS,
        session=SESSIONS,
        chosen=st.lists(
            st.tuples(
                st.sampled_from(MODIFICATIONS),
                PLACES,
            ),
            min_size=1,
            max_size=3,
        ),
    )
    def modify(self, user: str, session: str | None, chosen: list[tuple[str, int]]) -> None:
        wire_modifications, rule_modifications = [], []
        for kind, place in chosen:
            wire, rule_ = self.modification(kind, place)
            wire_modifications.append(wire)
            rule_modifications.append(rule_)
        self.both(
            (user, session, Channel.MCP),
            ("modify_plan", {"planId": self.plan.id, "modifications": wire_modifications}),
            lambda moment: rules.modify(self.plan, tuple(rule_modifications), moment),
        )

    def modification(self, kind: str, place: int) -> tuple[Body, rules.Modification]:
        step_id = self.step_id(place)
        named = {"stepId": step_id}
        new = NewStep(type=StepType.SEARCH, instructions=LOOK)
        wire, condition = make_branch(BranchAction.REPEAT, target=1)
        turned = tuple(step.id for step in reversed(self.plan.steps))
        adding = {"action": "add_steps", "steps": [make_step()], "insertAfterOrder": place}
        kinds: dict[str, tuple[Body, rules.Modification]] = {
            "add": (adding, rules.AddSteps((new,), place)),
            "add_repeat": (
                {**adding, "steps": [make_step(branchingConditions=[wire])]},
                rules.AddSteps((replace(new, conditions=(condition,)),), place),
            ),
            "conditions": (
                {"action": "set_conditions", **named, "branchingConditions": [wire]},
                rules.SetConditions(step_id, (condition,)),
            ),
            "no_conditions": (
                {"action": "set_conditions", **named, "branchingConditions": []},
                rules.SetConditions(step_id, ()),
            ),
            "cancel": ({"action": "cancel_plan", "reason": "no use"}, rules.CancelPlan("no use")),
            "remove": ({"action": "remove_step", **named}, rules.RemoveStep(step_id)),
            "reverse": (
                {"action": "reorder_steps", "stepIds": list(turned)},
                rules.ReorderSteps(turned),
            ),
            "rewrite": (
                {"action": "update_step_instructions", **named, "instructions": f"No. {place}"},
                rules.UpdateInstructions(step_id, f"No. {place}"),
            ),
            "fail": (
                {"action": "fail_step", **named, "reason": "broken"},
                rules.FailStep(step_id, "broken"),
            ),
            "again": (
                {"action": "fail_step", **named, "reason": "broken", "retry": True},
                rules.FailStep(step_id, "broken", retry=True),
            ),
            "retry": ({"action": "retry_step", **named}, rules.RetryStep(step_id)),
            **edits(step_id, place),
        }
        return kinds[kind]

    @precondition(lambda self: self.history)
    @rule(
        user=USERS,
        session=SESSIONS,
        place=PLACES,
        limit=st.sampled_from(["none", "step", "entry"]),
        goes_on=st.booleans(),
    )
    def copy(
        self, user: str, session: str | None, place: int, limit: str, *, goes_on: bool
    ) -> None:
        """Copy the plan: all of it, up to a step, or as of an audit entry.

        If `goes_on`, the test continues with the copy.
        """
        original, history = self.plan, self.history
        seqs = sorted(history)
        seq = seqs[place % len(seqs)] if limit == "entry" else seqs[-1]
        up_to = place if limit == "step" else None
        limits = {"step": {"upToStep": place}, "entry": {"atAuditSeq": seq}}.get(limit, {})
        source = CopiedPlan(id=original.id, seq=seq, rows=history[seq], up_to_step=up_to)
        changes: list[Change] = []

        def decided(context: DecisionContext) -> Decision[Plan]:
            decision = copy_plan(source, CopyOptions(), context)
            changes.extend(change for entry in decision.entries for change in entry.changes)
            return decision

        tool_call = ("create_research_plan", {"copyOf": original.id, **limits})
        body, copied = self.both((user, session, Channel.MCP), tool_call, decided)
        if copied is None:
            return
        assert full_id(body["planId"]) == copied.id
        check_state(copied)
        stored = self.wait(self.world.stored(self.world.agent.org_id, copied.id))
        expected = replay(changes)
        assert known_rows(stored) == known_rows(expected)
        # The test continues with the copy only if the copy has no conditions, because the rules do
        # not return the conditions of a copy.
        if goes_on and "condition" not in expected:
            self.history = {}
        else:
            self.plan = original

    @invariant()
    def changes_applied_to_a_copy_result_in_the_stored_plan(self) -> None:
        """Compare an earlier copy after the changes since then with the plan that is read now."""
        database, org_id = self.world.database, self.world.agent.org_id
        wanted = PlanRequest(plan_id=self.plan.id, review=False)
        results = self.wait(database.read_org(org_id, *refresh.plan_statements(wanted)))
        now, before = refresh.read_plan(results, wanted), self.copy_before
        if now and before and before.plan.id == now.plan.id:
            (rows,) = self.wait(database.read_org(org_id, refresh.changes_statement(before)))
            after = refresh.apply_entries(before, rows)
            assert after is None or comparable(after) == comparable(now)
            assert after is not None or now.head != before.head
        self.copy_before = now

    @rule()
    def swap_processes(self) -> None:
        """Let the next calls of each user reach the other process."""
        self.are_swapped = not self.are_swapped

    @rule()
    def look(self) -> None:
        body, _ = self.both(
            ("ann", None, Channel.MCP),
            ("get_plan_status", {"planId": self.plan.id}),
            lambda moment: detect_stall(self.plan, moment),
        )
        assert body["status"] == self.plan.status
        assert body["totalSteps"] == len(self.plan.steps)

    @rule(user=USERS, session=SESSIONS)
    def read_up(self, user: str, session: str | None) -> None:
        def decided(context: DecisionContext) -> Decision[None]:
            if is_new_session(self.plan, session):
                return resume_session(self.plan, context)
            return Decision(None, self.plan)

        tool_call = ("get_research_context", {"planId": self.plan.id})
        self.both((user, session, Channel.MCP), tool_call, decided)

    @precondition(lambda self: self.plan.steps)
    @rule(place=PLACES)
    def read_a_step(self, place: int) -> None:
        step = self.plan.step(self.step_id(place))
        touched = (step.id,) if step.status is StepStatus.IN_PROGRESS else ()
        self.both(
            ("ann", None, Channel.MCP),
            ("get_step_context", {"stepId": step.id}),
            lambda _: Decision(None, self.plan, touched=touched),
        )

    @rule(minutes=st.sampled_from([1, 20, 31]))
    def pass_time(self, minutes: int) -> None:
        self.world.clock.advance(minutes=minutes)

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
    """Return a plan without its texts and sessions, which depend on the call, and heartbeats."""
    steps = tuple(step._replace(last_seen_at=None) for step in loaded.plan.steps)
    plan = loaded.plan._replace(texts={}, sessions=frozenset(), steps=steps)
    return plan, loaded.head


def make_branch(action: BranchAction, *, target: int) -> tuple[Body, NewCondition]:
    """Return a condition in two forms: as a tool argument, and as an argument of the rules."""
    params: Body = {}
    steps: tuple[NewStep, ...] = ()
    if action is BranchAction.SKIP_TO:
        params["targetStepOrder"] = target
    if action is BranchAction.REPEAT:
        params |= {"fromStepOrder": 1, "max": 2}
    if action is BranchAction.ADD_STEPS:
        inner, inner_condition = make_branch(BranchAction.REPEAT, target=target)
        params["steps"] = [make_step(branchingConditions=[inner])]
        added = NewStep(type=StepType.SEARCH, instructions=LOOK, conditions=(inner_condition,))
        steps = (added,)
    expression = "result == 'branch'"
    condition = NewCondition(
        expression=expression,
        action=action,
        target_step_order=params.get("targetStepOrder"),
        from_step_order=params.get("fromStepOrder"),
        max_repeats=params.get("max"),
        steps=steps,
    )
    wire = {"conditionExpression": expression, "ifTrueAction": str(action), "actionParams": params}
    return wire, condition


def check_taken(body: Body, reply: object) -> None:
    """Check that a reply of the dispatcher gives the same step as the reply of the rules."""
    assert isinstance(reply, tuple(STATUS_OF))
    assert body["status"] == STATUS_OF[type(reply)]
    if isinstance(reply, StepReady):
        assert (full_id(body["stepId"]), body["attempt"]) == (reply.step.id, reply.step.attempt)
        assert body.get("resumed", False) == reply.resumed
        assert ("takenOver" in body) == (reply.replaced is not None)


def _code(answer: Answer) -> str | None:
    error: Any = answer.body.get("error")
    return str(error["code"]) if error else None


def test_tool_calls_in_any_order_give_same_results_as_plan_rules(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh: deque[str] = deque()

    def remembered() -> str:
        fresh.append(queries.new_id())
        return fresh[-1]

    async def again(locked: LockedPlan, results: Results, tx: Transaction) -> None:
        fresh.clear()
        await read(locked, results, tx)

    read = LockedPlan.read
    monkeypatch.setattr(locking, "new_id", remembered)
    monkeypatch.setattr(LockedPlan, "read", again)
    many = 20 if shared_place.server.name == "18" else 8
    run_state_machine_as_test(
        lambda: SameAsTheRules(shared_place, fresh),  # type: ignore[arg-type]  # any maker will do
        settings=settings(max_examples=many, stateful_step_count=30),
    )
