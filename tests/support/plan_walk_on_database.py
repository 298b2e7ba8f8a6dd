"""Decisions sampled from the model check of the plan rules, executed on a real PostgreSQL.

To bring a stored plan to a state, the calls that lead to the state are made again: the rules decide
each call, and the store writes the decision. The store then loads the plan, and the rules decide
the sampled call. After this call, the stored rows must equal the plan that the rules computed, and
the replayed audit.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from uuid import UUID

from plan_builders import NOON
from plan_invariants import check_decision, check_state, known_rows, rows_of
from plan_shapes import ACTORS, Call, Shape
from plan_state_space import GAP, LATER, Walk, names_of, state_of, with_heartbeats
from waybook.app.queries.audit import changes_in
from waybook.core.changes import differences, replay
from waybook.core.decision_context import Actor, DecisionContext
from waybook.errors import WaybookError
from waybook.plan.create import create
from waybook.plan.draft import Decision
from waybook.plan.model import CLOSED_PLAN, Plan, StepId
from waybook.store import audit
from waybook.store.audit import ChainHead, WriteContext
from waybook.store.driver.database import Database, Transaction
from waybook.store.driver.queries import new_id, new_uuid
from waybook.store.plans import load, writer
from waybook.store.plans.load import PlanRequest

#: Number of calls that are sampled in each state.
CALLS_PER_STATE = 8
#: Number of successive states in which calls are sampled. The first state is one of the model
#: check, and a sampled call leads to each of the others.
STATES_PER_PATH = 3


@dataclass(slots=True)
class StoredPlan:
    """Stored plan in an open transaction, changed only by decisions of the plan rules."""

    shape: Shape
    tx: Transaction
    rng: random.Random
    plan: Plan
    known: dict[StepId, str]
    now: datetime = NOON
    head: ChainHead = field(default_factory=ChainHead)

    def contexts(self) -> tuple[DecisionContext, DecisionContext, DecisionContext]:
        ann, bob, pat = (
            DecisionContext(self.now, actor, new_id, new_uuid, self.shape.policy)
            for actor in ACTORS
        )
        return ann, bob, pat

    def calls(self) -> list[tuple[str, Call]]:
        """Return all calls to try in the current state, in the same order every time."""
        names = names_of(self.plan, self.known)
        return [*self.shape.calls(self.plan, names, self.contexts())]

    async def advance(self, number: int) -> None:
        """Make the call with this number, or let time pass if the number is `LATER`."""
        if number == LATER:
            self.now += GAP
            return
        who, call = self.calls()[number]
        await self.write(call(), _actor(who))

    async def write(self, decision: Decision[object], actor: Actor) -> None:
        """Write a decision as the application does, and make its plan the current plan."""
        context = WriteContext(self.now, actor, self.head)
        statements, self.head = writer.statements(self.plan, decision, context)
        await self.tx.send(*statements)
        self.plan = with_heartbeats(decision, self.now)

    async def load(self, actor: Actor) -> Plan:
        """Return the plan as the store loads it for a call of `actor`."""
        wanted = PlanRequest(
            plan_id=self.plan.id,
            texts=tuple(step.id for step in self.plan.steps),
            holder=actor.holder,
        )
        loaded = load.read_plan(await self.tx.send(*load.lock_statements(wanted)), wanted)
        assert loaded is not None
        assert loaded.head == self.head
        return loaded.plan

    async def decide_and_check(self, number: int) -> None:
        """Make the call with this number on the stored plan, and check the stored rows."""
        who, _ = self.calls()[number]
        actor = _actor(who)
        self.check_loaded(await self.load(actor), actor)
        decision = self.calls()[number][1]()
        check_decision(self.plan, decision, who)
        await self.write(decision, actor)
        # The database checks at the end of a transaction that no two steps have the same position.
        # Let it check this now.
        await self.tx.send("set constraints all immediate", "set constraints all deferred")
        self.check_loaded(await self.load(actor), actor)
        await self.check_rows()

    def check_loaded(self, loaded: Plan, actor: Actor) -> None:
        """Check that the loaded plan equals the current plan, and make it the current plan."""
        check_state(loaded)
        session = actor.session
        assert (session in self.plan.sessions) == (session in loaded.sessions)
        expected = self.plan._replace(
            sessions=loaded.sessions,
            created_at=loaded.created_at,
            created_by=loaded.created_by,
            texts={step.id: self.plan.texts[step.id] for step in self.plan.steps},
            steps=tuple(
                step._replace(last_seen_at=stored.last_seen_at)
                for step, stored in zip(self.plan.steps, loaded.steps, strict=True)
            ),
        )
        assert loaded == expected
        before = state_of(self.plan, self.known, self.now)
        assert state_of(loaded, self.known, self.now) == before
        self.plan = loaded._replace(sessions=self.plan.sessions)

    async def check_rows(self) -> None:
        """Check that the stored rows equal the current plan and the replayed audit."""
        rows, entry_rows = await self.tx.send(
            load.SQL["stored_rows"](plan_id=self.plan.id),
            audit.SQL["entries"](subject_id=self.plan.id, since=0, most=100_000),
        )
        stored, entries = audit.read_rows(rows), entry_rows
        assert audit.first_broken(entries) is None
        assert differences(replay(changes_in(entries)), stored) == []
        actual, expected = known_rows(stored), rows_of(self.plan)
        for entity in ("plan", "step", "condition"):
            assert actual.get(entity, {}) == expected.get(entity, {})

    def sample_calls(self, most: int) -> list[int]:
        """Return the numbers of up to `most` random calls that would change the plan."""
        calls = [call for _, call in self.calls()]
        numbers = self.rng.sample(range(len(calls)), len(calls))
        return [*islice((number for number in numbers if _changes(calls[number])), most)]


def _changes(call: Call) -> bool:
    try:
        decision = call()
    except WaybookError:
        return False
    return bool(decision.entries)


def _actor(user: str) -> Actor:
    return next(actor for actor in ACTORS if actor.user == user)


async def begin(shape: Shape, tx: Transaction, rng: random.Random) -> StoredPlan:
    """Store a new plan of this shape."""
    ann = ACTORS[0]
    made = create(shape.new_plan(), DecisionContext(NOON, ann, new_id, new_uuid, shape.policy))
    known = {step.id: f"s{step.order}" for step in made.plan.steps}
    statements, head = writer.statements(None, made, WriteContext(NOON, ann))
    await tx.send(*statements)
    return StoredPlan(shape, tx, rng, made.plan, known, head=head)


async def execute_sample(
    database: Database, org_id: UUID, walked: Walk, count: int, rng: random.Random
) -> int:
    """Execute at least `count` sampled decisions; return how many were executed."""
    executed = 0
    for number in _sampled_states(walked, rng):
        if executed >= count:
            break
        async with database.org_transaction(org_id) as tx:
            stored = await begin(walked.shape, tx, rng)
            for call in walked.path(number):
                await stored.advance(call)
            assert state_of(stored.plan, stored.known, stored.now) == walked.states[number]
            for _ in range(STATES_PER_PATH):
                executed += await _execute_some(stored)
    return executed


def _sampled_states(walked: Walk, rng: random.Random) -> Iterator[int]:
    """Yield the numbers of the states with an open plan, in random order and without end."""
    numbers = [n for n, state in enumerate(walked.states) if state.status not in CLOSED_PLAN]
    while True:
        rng.shuffle(numbers)
        yield from numbers


async def _execute_some(stored: StoredPlan) -> int:
    """Try sampled calls in the current state, and undo each of them except the last."""
    sample = stored.sample_calls(CALLS_PER_STATE)
    for place, number in enumerate(sample, start=1):
        before = stored.plan, stored.head
        await stored.tx.send("savepoint sampled")
        await stored.decide_and_check(number)
        if place < len(sample):
            await stored.tx.send("rollback to savepoint sampled")
            stored.plan, stored.head = before
    return len(sample)
