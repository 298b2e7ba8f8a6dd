"""State space of small plans, explored through the plan rules (functions of `waybook.plan`).

A state contains only the parts of a plan that the rules read, so that different plans can have the
same state. For each time in the plan, a state contains only whether the time is older than the
stall threshold. The attempt of every step counts as 1. A state omits the revision and the number
of audit entries of the plan, the holders of steps that have ended, and conditions that can no
longer be evaluated or copied. An added step is named by its position among the added steps. The
exploration makes every possible call in each state, and also lets time pass.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from itertools import chain, count
from typing import NamedTuple

from plan_builders import NOON, make_review, make_step, numbered_ids
from plan_invariants import check_decision, check_state, known_rows, rows_of
from plan_shapes import ACTORS, Moments, Names, Shape
from waybook.core.changes import replay
from waybook.core.decision_context import DecisionContext
from waybook.errors import WaybookError
from waybook.json_values import Json
from waybook.plan.create import create
from waybook.plan.draft import Decision
from waybook.plan.model import (
    CLOSED_PLAN,
    DONE_STEP,
    BranchAction,
    BranchOutcome,
    Condition,
    ConditionId,
    DecisionKind,
    NewStep,
    Plan,
    PlanId,
    PlanStatus,
    Review,
    Step,
    StepId,
    StepStatus,
    StepText,
    StepType,
)
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD
from waybook.plan.repeat import repeated_range

FRESH = NOON
#: Time that passes in one transition. It is longer than the stall threshold, so every holder who
#: makes no call becomes inactive.
GAP = DEFAULT_STALL_THRESHOLD + timedelta(minutes=1)
OLD = NOON - GAP
TEXT = StepText(instructions="Look it up.")
BOTH = frozenset({"a", "b"})
#: Name that stands for any removed step in a state.
GONE = "gone"

ReviewKey = tuple[str, Json, bool] | None


class StepKey(NamedTuple):
    """Fields of a step that the plan rules read."""

    name: str
    type: StepType
    status: StepStatus
    is_old: bool
    session: str | None
    silent_holders: int | None
    max_attempts: int | None
    depends_on: tuple[str, ...]
    is_outdated: bool


class State(NamedTuple):
    """Fields of a plan that the plan rules read; a number stands for each condition."""

    status: PlanStatus
    is_resumed: bool
    steps: tuple[StepKey, ...]
    review: ReviewKey
    conditions: tuple[int, ...]
    is_sequential: bool


class Conditions:
    """Numbers that stand for conditions, so that a state can be hashed quickly."""

    def __init__(self) -> None:
        self._numbers: dict[Condition, int] = {}
        self._known: dict[int, int] = {}
        self.all: list[Condition] = []

    def number(self, condition: Condition, name: str, place: int, names: Names) -> int:
        """Return the number of the condition at position `place` of the step `name`."""
        known = self._known.get(id(condition))
        if known is not None and condition.id == f"{name}.{place}" and names is IDENTITY:
            return known
        renamed = _renamed(condition, name, place, names)
        number = self._numbers.setdefault(renamed, len(self.all))
        if number == len(self.all):
            self.all.append(renamed)
            self._known[id(renamed)] = number
        return number


#: Mapping for plans whose steps have the same ids as in the states, so that no id is replaced.
IDENTITY: Names = {}
CONDITIONS = Conditions()


@dataclass(slots=True)
class Walk:
    """Results of an exploration of the state space."""

    shape: Shape
    states: list[State] = field(default_factory=list)
    #: For each state, the numbers of the states from which it was reached.
    reached_from: list[list[int]] = field(default_factory=list)
    edges: int = 0
    refusals: int = 0
    errors: dict[str, int] = field(default_factory=dict)

    def dead_ends(self) -> list[State]:
        """Return the states from which no sequence of calls closes the plan."""
        alive = [state.status in CLOSED_PLAN for state in self.states]
        waiting = [number for number, ended in enumerate(alive) if ended]
        while waiting:
            for number in self.reached_from[waiting.pop()]:
                if not alive[number]:
                    alive[number] = True
                    waiting.append(number)
        return [state for state, lives in zip(self.states, alive, strict=True) if not lives]


def initial_plan(shape: Shape) -> Plan:
    """Create the plan of a shape; check that a replay of its audit gives its rows."""
    ids = chain(["p"], (f"s{n}" for n, _ in enumerate(shape.steps, 1)), (f"c{n}" for n in count(1)))
    context = DecisionContext(FRESH, ACTORS[0], lambda: next(ids), lambda: next(ids))
    made = create(shape.new_plan(), context)
    changes = [change for entry in made.entries for change in entry.changes]
    assert known_rows(replay(changes)) == rows_of(made.plan)
    return made.plan


def moments_of(shape: Shape) -> Moments:
    """Return the decision contexts of the two agents and the person."""
    ann, bob, pat = (
        DecisionContext(FRESH, actor, new_id, new_id, shape.policy)
        for actor, new_id in ((actor, numbered_ids(actor.user)) for actor in ACTORS)
    )
    return ann, bob, pat


def walk(shape: Shape) -> Walk:
    """Explore every state of a plan up to the limits of its shape, breadth-first."""
    seen: dict[State, int] = {}
    walked, moments = Walk(shape), moments_of(shape)
    known = known_names(shape)
    _meet(walked, seen, state_of(initial_plan(shape), known))
    # The loop itself adds states to this list.
    for number, state in enumerate(walked.states):
        plan = plan_of(state)
        for after in _next_plans(walked, plan, moments):
            if _within(shape, after, known):
                there = state_of(after, known)
                walked.reached_from[_meet(walked, seen, there)].append(number)
        assert state_of(plan, known) == state
    return walked


def known_names(shape: Shape) -> dict[StepId, str]:
    """Return the names that states use for the steps of a new plan."""
    return {StepId(f"s{n}"): f"s{n}" for n, _ in enumerate(shape.steps, start=1)}


def _within(shape: Shape, plan: Plan, known: Mapping[StepId, str]) -> bool:
    first = [step.id for step in plan.steps if step.id in known]
    added = len(plan.steps) - len(first)
    if len(plan.steps) > shape.max_steps or added > shape.max_added:
        return False
    return shape.orders or first == sorted(first)


def _meet(walked: Walk, seen: dict[State, int], state: State) -> int:
    number = seen.setdefault(state, len(seen))
    if number == len(walked.states):
        walked.states.append(state)
        walked.reached_from.append([])
    return number


def _next_plans(walked: Walk, plan: Plan, moments: Moments) -> Iterator[Plan]:
    names: dict[StepId, str] = {step.id: step.id for step in plan.steps}
    for who, call in walked.shape.calls(plan, names, moments):
        try:
            decision = call()
        except WaybookError as refusal:
            walked.refusals += 1
            walked.errors[refusal.code] = walked.errors.get(refusal.code, 0) + 1
            continue
        check_decision(plan, decision, who)
        check_state(decision.plan)
        if decision.refusal is not None:
            code = decision.refusal.code
            walked.errors[code] = walked.errors.get(code, 0) + 1
        walked.edges += 1
        yield with_heartbeats(decision)
    if plan.status not in CLOSED_PLAN:
        yield later(plan)


def names_of(plan: Plan, known: Mapping[StepId, str]) -> dict[StepId, str]:
    """Return the name of each step; an added step is named by its position among added steps."""
    added = (f"x{n}" for n in count(1))
    return {step.id: known.get(step.id) or next(added) for step in plan.steps}


def state_of(plan: Plan, known: Mapping[StepId, str]) -> State:
    names = names_of(plan, known)
    is_closed = plan.status in CLOSED_PLAN
    steps = tuple([_step_key(step, names, is_closed=is_closed) for step in plan.steps])
    return State(
        plan.status,
        plan.status is PlanStatus.EXECUTING
        and plan.resumed_at == FRESH
        and any(step.is_old for step in steps),
        steps,
        _review_key(plan, names),
        () if is_closed else _condition_numbers(plan, names),
        plan.sequential,
    )


def _review_key(plan: Plan, names: Names) -> ReviewKey:
    """Return the parts of the plan's review that the rules read, or None if there are none."""
    review = plan.review
    if review is None or (review.decision and plan.status not in CLOSED_PLAN):
        return None
    return names.get(review.step_id, GONE), review.result_summary, review.decision is None


def _step_key(step: Step, names: Names, *, is_closed: bool) -> StepKey:
    # The rules do not read the holder of a step in a closed plan.
    status, is_running = step.status, step.status is StepStatus.IN_PROGRESS and not is_closed
    seen = max(step.in_progress_since or OLD, step.last_seen_at or OLD)
    depends_on = tuple(sorted({names[before] for before in step.depends_on}))
    return StepKey(
        names[step.id],
        step.type,
        status,
        is_running and seen < FRESH,
        step.held_session if is_running else None,
        step.silent_holders if is_running else None,
        step.max_attempts,
        depends_on,
        is_running and step.answers_revision is not None,
    )


def _condition_numbers(plan: Plan, names: Names) -> tuple[int, ...]:
    """Return, step by step, the numbers of the conditions that may still be evaluated or copied."""
    by_step: dict[StepId, list[Condition]] = {}
    for condition in plan.conditions:
        by_step.setdefault(condition.step_id, []).append(condition)
    open_steps = [step for step in plan.steps if step.status not in DONE_STEP]
    relevant = {step.id for step in open_steps}
    for step in open_steps:
        for condition in by_step.get(step.id, ()):
            if condition.action is BranchAction.REPEAT:
                relevant |= {other.id for other in repeated_range(plan, condition, step)}
    is_named = all(step_id == name for step_id, name in names.items())
    return tuple(
        CONDITIONS.number(
            condition if step.status not in DONE_STEP else _evaluated(condition),
            names[step.id],
            place,
            IDENTITY if is_named else names,
        )
        for step in plan.steps
        if step.id in relevant
        for place, condition in enumerate(by_step.get(step.id, ()), start=1)
    )


@cache
def _evaluated(condition: Condition) -> Condition:
    return replace(condition, outcome=BranchOutcome.NOT_FIRED)


def _renamed(condition: Condition, name: str, place: int, names: Names) -> Condition:
    def rename(step_id: StepId | None) -> StepId | None:
        if step_id is None or names is IDENTITY:
            return step_id
        return StepId(names.get(step_id, GONE))

    return replace(
        condition,
        id=ConditionId(f"{name}.{place}"),
        step_id=StepId(name),
        position=place,
        target_step_id=rename(condition.target_step_id),
        from_step_id=rename(condition.from_step_id),
        steps=tuple(_without_conditions(new) for new in condition.steps),
        # The rules do not read why a step is repeated.
        cause=None,
    )


def _without_conditions(new: NewStep) -> NewStep:
    assert not new.conditions, "conditions of steps that conditions add are not renamed"
    return new


def plan_of(state: State) -> Plan:
    """Return a plan in this state."""
    steps = tuple([_step_of(key, order) for order, key in enumerate(state.steps, start=1)])
    return Plan(
        id=PlanId("p"),
        name="Rivers",
        status=state.status,
        revision=1,
        stall_seconds=None,
        resumed_at=FRESH if state.is_resumed else None,
        fail_reason=None,
        seq=2,
        steps=steps,
        texts=dict.fromkeys([step.id for step in steps], TEXT),
        conditions=tuple([CONDITIONS.all[number] for number in state.conditions]),
        review=None if state.review is None else _review_of(*state.review),
        sessions=BOTH,
        sequential=state.is_sequential,
    )


@cache
def _step_of(key: StepKey, order: int) -> Step:
    step = make_step(key.status)._replace(
        id=StepId(key.name),
        order=order,
        type=key.type,
        max_attempts=key.max_attempts,
        depends_on=tuple(map(StepId, key.depends_on)),
    )
    if key.status is not StepStatus.IN_PROGRESS:
        return step
    return step._replace(
        in_progress_since=OLD if key.is_old else FRESH,
        held_by={"a": "ann", "b": "bob", None: None}[key.session],
        held_session=key.session,
        silent_holders=key.silent_holders,
        answers_revision=1 if key.is_outdated else None,
    )


def _review_of(name: str, result: Json, is_open: bool) -> Review:  # noqa: FBT001 - a state's own fields
    review = make_review(1)._replace(step_id=StepId(name), result_summary=result)
    return review if is_open else review._replace(decision=DecisionKind.MODIFY, decided_by="pat")


def with_heartbeats(decision: Decision[object]) -> Plan:
    """Return the plan after a decision, with a new heartbeat for each step in `touched`."""
    plan = decision.plan
    if not decision.touched:
        return plan
    steps = tuple(
        step._replace(last_seen_at=FRESH) if step.id in decision.touched else step
        for step in plan.steps
    )
    return plan._replace(steps=steps)


def later(plan: Plan) -> Plan:
    """Return the plan after a time that is longer than the stall threshold."""
    steps = tuple(
        step._replace(in_progress_since=OLD) if step.in_progress_since else step
        for step in plan.steps
    )
    return plan._replace(steps=steps, resumed_at=OLD if plan.resumed_at else None)
