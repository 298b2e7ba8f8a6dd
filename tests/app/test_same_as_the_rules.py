"""Random calls through the dispatcher, compared with the pure functions of `waybook.plan`.

Here, these pure functions are called the rules. Each call is made through the dispatcher and
applied to the rules, with the same clock time and the same new ids. Then both replies must be
equal, and the stored rows must equal the plan that the rules computed.
"""

import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from org_env import Body, make_step
from plan_invariants import check_state, known_rows
from plan_modifications import LOOK, MODIFICATIONS, make_branch, modification
from postgres_servers import ServerDatabase
from rules_comparison import RulesComparison
from waybook.app.request.locks import locking
from waybook.app.request.locks.locking import LockedPlan
from waybook.core.changes import Change, replay
from waybook.core.decision_context import Channel, DecisionContext
from waybook.core.usage import Usage
from waybook.plan import modify as rules
from waybook.plan.copy import CopiedPlan, copy_plan
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision, detect_stall, is_new_session, resume_session
from waybook.plan.model import (
    BranchAction,
    DecisionKind,
    NewCondition,
    NewStep,
    Plan,
    PlanStatus,
    StepStatus,
    StepType,
)
from waybook.plan.next_step import (
    StepReady,
    next_step,
)
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.submit import Submission, submit
from waybook.store.driver import queries
from waybook.store.driver.connection import Results
from waybook.store.driver.database import Transaction

#: Run these tests on PostgreSQL 15 too: there, every transaction begins with `set local role`, and
#: every tool for plans must work with that.
pytestmark = pytest.mark.every_server

#: Number of random plans; `make harness NAME=model-db` sets a higher number.
PLANS = int(os.environ.get("WAYBOOK_RANDOM_PLANS", "20"))
SESSIONS = st.sampled_from([None, "a", "b"])
USERS = st.sampled_from(["ann", "bob"])
PLACES = st.integers(0, 5)
STATUS_OF: dict[object, str] = {
    PlanStatus.COMPLETED: "plan_complete",
    PlanStatus.FAILED: "plan_failed",
    PlanStatus.AWAITING_REVIEW: "awaiting_review",
}


class SameAsTheRules(RulesComparison):
    @initialize(
        steps=st.integers(1, 4),
        branch=st.sampled_from([None, *BranchAction]),
        depends=st.booleans(),
        holders=st.sampled_from([None, 1, 2]),
    )
    def begin(
        self, steps: int, branch: BranchAction | None, *, depends: bool, holders: int | None
    ) -> None:
        """Create a plan; with `depends`, its last step depends on the first."""
        body = make_step(LOOK, **({} if holders is None else {"maxAttempts": holders}))
        bodies = [body] * steps
        new_step = NewStep(type=StepType.SEARCH, instructions=LOOK, max_attempts=holders)
        new_steps = [new_step] * steps
        if depends and steps > 1:
            bodies[-1] = {**body, "dependsOn": [1]}
            new_steps[-1] = replace(new_step, depends_on=(1,))
        args: Body = {"name": "P", "researchQuestion": "Q?", "steps": bodies}
        conditions: tuple[NewCondition, ...] = ()
        if branch and (branch is not BranchAction.SKIP_TO or steps > 1):
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
        patience = DEFAULT_STALL_THRESHOLD if take_next else None
        body, done = self.both(
            (user, session, Channel.MCP),
            ("submit_step_result", {**args, "takeNext": take_next}),
            lambda moment: submit(self.plan, step.id, submission, moment, patience),
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
        chosen=st.lists(st.tuples(st.sampled_from(MODIFICATIONS), PLACES), min_size=1, max_size=3),
    )
    def modify(self, user: str, session: str | None, chosen: list[tuple[str, int]]) -> None:
        wire_modifications, rule_modifications = [], []
        for kind, place in chosen:
            wire, rule_ = modification(self.plan, kind, place)
            wire_modifications.append(wire)
            rule_modifications.append(rule_)
        self.both(
            (user, session, Channel.MCP),
            ("modify_plan", {"planId": self.plan.id, "modifications": wire_modifications}),
            lambda moment: rules.modify(self.plan, tuple(rule_modifications), moment),
        )

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
        """Copy the whole plan, the plan up to a step, or the plan as of an audit entry.

        With `goes_on`, the following calls are made on the copy.
        """
        original, history = self.plan, self.history
        seqs = sorted(history)
        seq = seqs[place % len(seqs)] if limit == "entry" else seqs[-1]
        up_to = place if limit == "step" else None
        limits = {"step": {"upToStep": place}, "entry": {"atAuditSeq": seq}}.get(limit, {})
        source = CopiedPlan(id=original.id, seq=seq, rows=history[seq], up_to_step=up_to)
        changes: list[Change] = []

        def decided(context: DecisionContext) -> Decision[Plan]:
            decision = copy_plan(source, context)
            changes.extend(change for entry in decision.entries for change in entry.changes)
            return decision

        tool_call = ("copy_plan", {"planId": original.id, **limits})
        body, copied = self.both((user, session, Channel.MCP), tool_call, decided)
        if copied is None:
            return
        assert body["planId"] == copied.id
        check_state(copied)
        stored = self.wait(self.world.stored(self.world.agent.org_id, copied.id))
        expected = replay(changes)
        assert known_rows(stored) == known_rows(expected)
        # The object `copied` lacks the conditions of the plan. If the plan has conditions, the
        # following calls are made on the original plan.
        if goes_on and "condition" not in expected:
            self.history = {}
        else:
            self.plan = original

    @rule()
    def swap_processes(self) -> None:
        """From now on, let each of the two processes answer the calls that went to the other."""
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


def check_taken(body: Body, reply: object) -> None:
    """Check that the replies of the tool and of the rule have the same status and step."""
    if not isinstance(reply, StepReady):
        assert body["status"] == STATUS_OF.get(reply, "no_pending_steps")
    else:
        assert body["status"] == "step_ready"
        assert (body["stepId"], body["attempt"]) == (reply.step.id, reply.step.attempt)
        assert body.get("resumed", False) == reply.resumed
        assert ("takenOver" in body) == (reply.taken_over is not None)


def test_random_tool_calls_change_the_plan_as_the_rules_predict(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh: deque[str] = deque()

    def remembered(new: Callable[[], str]) -> str:
        fresh.append(new())
        return fresh[-1]

    async def again(locked: LockedPlan, results: Results, tx: Transaction) -> None:
        fresh.clear()
        await read(locked, results, tx)

    read = LockedPlan.read
    monkeypatch.setattr(locking, "new_id", partial(remembered, queries.new_id))
    monkeypatch.setattr(locking, "new_uuid", partial(remembered, queries.new_uuid))
    monkeypatch.setattr(LockedPlan, "read", again)
    many = PLANS if shared_place.server.name == "18" else 8
    run_state_machine_as_test(
        lambda: SameAsTheRules(shared_place, fresh),  # type: ignore[arg-type]  # any callable works
        settings=settings(max_examples=many, stateful_step_count=30),
    )
