"""State space of a plan of three steps, explored through the plan rules.

A state is a plan in canonical form: fields that no rule reads are normalized. Times are `fresh` or
`old` (older than the stall threshold), attempts count up to `MANY`, revision and seq are dropped
but for "has history", an added step gets the lowest free name, an ended step has no holder. From
each state every call is made that a caller could make, and time may pass.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial

from plan_builders import (
    ANN,
    BOB,
    NOON,
    PAT,
    make_condition,
    make_new_step,
    make_plan,
    make_review,
    make_step,
    numbered_ids,
)
from plan_invariants import check_decision, check_state
from waybook.core.decision_context import DecisionContext
from waybook.errors import WaybookError
from waybook.json_values import Json
from waybook.plan.draft import Decision
from waybook.plan.model import (
    BranchAction,
    BranchOutcome,
    Condition,
    DecisionKind,
    Plan,
    Review,
    Step,
    StepId,
    StepText,
)
from waybook.plan.modify import (
    AddSteps,
    FailStep,
    Modification,
    RemoveStep,
    ReorderSteps,
    RetryStep,
    UpdateInstructions,
    modify,
)
from waybook.plan.next_step import next_step
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD, detect_stall
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.settle import resume_session
from waybook.plan.states import CLOSED_PLAN, DONE_STEP, PlanStatus, StepStatus
from waybook.plan.submit import Submission, submit

FRESH = NOON
OLD = NOON - DEFAULT_STALL_THRESHOLD - timedelta(minutes=1)
TEXT = StepText(instructions="Look it up.")
BOTH = frozenset({"a", "b"})
EXTRA = ("x1", "x2", "x3")

#: Decision contexts of the calls, one for each user: each call is made at noon, and may create any
#: number of ids.
MOMENTS = tuple(
    DecisionContext(now=FRESH, actor=who, new_id=numbered_ids(who.user)) for who in (ANN, BOB, PAT)
)

#: Results that are submitted for each step: a neutral result, and each result for which a condition
#: takes a branch.
RESULTS: dict[str, tuple[Json, ...]] = {
    "s1": ("plain", "skip", "add", "fail"),
    "s2": ("plain", "back", {"broken": True}),
    "s3": ("plain", "skip"),
}
#: Results that a review of a step may contain.
REVIEWED: dict[str, tuple[Json, ...]] = {"s1": (None, "skip", "fail")}

Call = Callable[[], Decision[object]]
StepKey = tuple[str, StepStatus, int, bool, str | None]
ReviewKey = tuple[StepId, Json, bool] | None
State = tuple[
    PlanStatus, bool, bool, frozenset[str], tuple[StepKey, ...], ReviewKey, tuple[str, ...]
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of the exploration; it checks a decision beyond them, but not what follows."""

    steps: int = 3
    attempts: int = 1
    #: True if the walk may reorder the steps.
    orders: bool = False
    #: True if sessions join the plan during the walk, False if the plan has them from the start.
    meeting: bool = False


@dataclass(slots=True)
class Walk:
    """Results of an exploration of the state space."""

    plans: list[Plan] = field(default_factory=list)
    #: For each state, the numbers of the states from which it was reached.
    reached_from: list[list[int]] = field(default_factory=list)
    edges: int = 0
    refusals: int = 0
    #: Number of answers with each error code.
    errors: dict[str, int] = field(default_factory=dict)

    def dead_ends(self) -> list[Plan]:
        """Return the states from which no sequence of calls closes the plan."""
        alive = [plan.status in CLOSED_PLAN for plan in self.plans]
        waiting = [number for number, ended in enumerate(alive) if ended]
        while waiting:
            for number in self.reached_from[waiting.pop()]:
                if not alive[number]:
                    alive[number] = True
                    waiting.append(number)
        return [plan for plan, lives in zip(self.plans, alive, strict=True) if not lives]


def initial_plan() -> Plan:
    """Return a plan of three steps with a condition for each kind of action."""
    conditions = (
        make_condition(1, "true"),
        make_condition(1, 'result == "skip"', BranchAction.SKIP_TO, target_step_id=StepId("s3")),
        make_condition(1, 'result == "add"', BranchAction.ADD_STEPS, steps=(make_new_step(),)),
        make_condition(1, 'result == "fail"', BranchAction.FAIL, reason="enough"),
        make_condition(2, 'result == "back"', BranchAction.SKIP_TO, target_step_id=StepId("s1")),
        make_condition(2, "result.broken", BranchAction.FAIL),
        make_condition(3, 'result == "skip"', BranchAction.SKIP_TO, target_step_id=StepId("s2")),
    )
    return make_plan(
        make_step(),
        make_step(),
        make_step(),
        status=PlanStatus.PLANNING,
        conditions=conditions,
        seq=1,
        sessions=frozenset[str](),
    )


CONDITIONS = initial_plan().conditions


def walk(bounds: Bounds) -> Walk:
    """Explore, breadth-first from a new plan, every state within the bounds."""
    seen: dict[State, int] = {}
    walked = Walk()
    _meet(walked, seen, state_of(initial_plan(), bounds))
    for number, plan in enumerate(walked.plans):  # the list grows during the walk
        for after in _next_plans(walked, plan):
            if _within(bounds, after):
                there = _meet(walked, seen, state_of(after, bounds))
                walked.reached_from[there].append(number)
        assert state_of(plan, bounds) in seen
    return walked


def _within(bounds: Bounds, plan: Plan) -> bool:
    if len(plan.steps) > bounds.steps:
        return False
    first = [step.id for step in plan.steps if step.id in RESULTS]
    return bounds.orders or first == sorted(first)


def _meet(walked: Walk, seen: dict[State, int], state: State) -> int:
    number = seen.setdefault(state, len(seen))
    if number == len(walked.plans):
        walked.plans.append(plan_of(state))
        walked.reached_from.append([])
    return number


def _next_plans(walked: Walk, plan: Plan) -> Iterator[Plan]:
    for who, call in calls(plan):
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
        yield with_signs_of_life(decision)
    if plan.status not in CLOSED_PLAN:
        yield later(plan)


# Functions that convert a plan to its canonical form.


def state_of(plan: Plan, bounds: Bounds) -> State:
    """Return the parts of a plan that affect the decisions of the rules."""
    names = _names(plan)
    steps = tuple([_step_key(step, names[step.id], bounds) for step in plan.steps])
    return (
        plan.status,
        plan.status is PlanStatus.EXECUTING
        and plan.resumed_at == FRESH
        and any(old for _, _, _, old, _ in steps),
        plan.seq > 1,
        plan.sessions if bounds.meeting else BOTH,
        steps,
        _review_key(plan),
        tuple([c.id for c in plan.conditions if c.outcome is None]),
    )


def _review_key(plan: Plan) -> ReviewKey:
    """Return the key of the plan's open review, or of a decided review if the plan is closed."""
    review = plan.review
    if review is None or (review.decision and plan.status not in CLOSED_PLAN):
        return None
    return review.step_id, review.result_summary, review.decision is None


def _names(plan: Plan) -> dict[StepId, str]:
    """Return a canonical name for each step: its id, or the lowest free name for a new step."""
    free = iter([name for name in EXTRA if name not in {step.id for step in plan.steps}])
    known = {*EXTRA, *RESULTS}
    return {step.id: step.id if step.id in known else next(free) for step in plan.steps}


def _step_key(step: Step, name: str, bounds: Bounds) -> StepKey:
    status = step.status
    attempt = 1 if status in DONE_STEP else min(step.attempt, bounds.attempts)
    if status is not StepStatus.IN_PROGRESS:
        return name, status, attempt, False, None
    seen = max(step.in_progress_since or OLD, step.last_seen_at or OLD)
    return name, status, attempt, seen == OLD, step.held_session


def plan_of(state: State) -> Plan:
    """Return the plan that represents this state."""
    status, resumed, history, sessions, steps, review, waiting = state
    placed = tuple(_step_of(key, order) for order, key in enumerate(steps, start=1))
    here = {step.id for step in placed}
    return Plan(
        id=_START.id,
        name=_START.name,
        status=status,
        revision=1,
        stall_seconds=None,
        resumed_at=FRESH if resumed else None,
        fail_reason=None,
        seq=2 if history else 1,
        steps=placed,
        texts=dict.fromkeys(here, TEXT),
        conditions=tuple(
            _condition_of(c, c.id in waiting) for c in CONDITIONS if c.step_id in here
        ),
        review=None if review is None else _review_of(*review),
        sessions=sessions,
    )


_START = initial_plan()


@cache
def _step_of(key: StepKey, order: int) -> Step:
    name, status, attempt, old, session = key
    step = make_step(status)._replace(id=StepId(name), order=order, attempt=attempt)
    if status is StepStatus.IN_PROGRESS:
        holder = {"a": "ann", "b": "bob", None: None}[session]
        since = _time(old=old)
        return step._replace(in_progress_since=since, held_by=holder, held_session=session)
    return step


@cache
def _condition_of(condition: Condition, waiting: bool) -> Condition:  # noqa: FBT001 - a cache key
    return replace(condition, outcome=None if waiting else BranchOutcome.NOT_FIRED)


def _review_of(step_id: StepId, result: Json, undecided: bool) -> Review:  # noqa: FBT001 - a state's own fields
    review = replace(make_review(1), step_id=step_id, result_summary=result)
    return review if undecided else replace(review, decision=DecisionKind.MODIFY, decided_by="pat")


def _time(*, old: bool) -> datetime:
    return OLD if old else FRESH


# Transitions


def with_signs_of_life(decision: Decision[object]) -> Plan:
    """Return the plan after the decision, with the callers' heartbeats recorded."""
    plan = decision.plan
    if not decision.touched:
        return plan
    steps = tuple(
        step._replace(last_seen_at=FRESH) if step.id in decision.touched else step
        for step in plan.steps
    )
    return plan._replace(steps=steps)


def later(plan: Plan) -> Plan:
    """Return the plan after more time than the stall threshold has passed."""
    steps = tuple(
        step._replace(in_progress_since=OLD) if step.in_progress_since else step
        for step in plan.steps
    )
    return plan._replace(steps=steps, resumed_at=OLD if plan.resumed_at else None)


def calls(plan: Plan) -> Iterator[tuple[str, Call]]:
    """Yield every call that is possible in this state, with its caller."""
    ann, bob, pat = MOMENTS
    for moment in (ann, bob):
        yield moment.actor.user, partial(next_step, plan, moment)
        yield moment.actor.user, partial(next_step, plan, moment, another=True)
        yield moment.actor.user, partial(resume_session, plan, moment)
    yield "pat", partial(detect_stall, plan, pat)
    for step in plan.steps:
        yield from _work(plan, step, ann, bob)
    for kind in DecisionKind:
        yield "bob", partial(decide, plan, kind, bob, feedback="Again.")
        yield "pat", partial(decide, plan, kind, pat, feedback="Again.")
    for modifications in _modifications(plan):
        yield "pat", partial(modify, plan, modifications, pat)
    yield "pat", partial(modify, plan, (), pat, expected_revision=plan.revision + 1)


def _work(
    plan: Plan, step: Step, ann: DecisionContext, bob: DecisionContext
) -> Iterator[tuple[str, Call]]:
    for result in RESULTS.get(step.id, ("plain",)):
        done = Submission(result_summary=result, attempt=step.attempt)
        yield "ann", partial(submit, plan, step.id, done, ann)
    late = Submission(result_summary="plain", attempt=step.attempt - 1)
    yield "bob", partial(submit, plan, step.id, late, bob)
    yield "bob", partial(submit, plan, step.id, Submission(result_summary="plain"), bob)
    for result in REVIEWED.get(step.id, (None,)):
        request = ReviewRequest(summary="Is this right?", result_summary=result)
        yield "ann", partial(request_review, plan, step.id, request, ann)


def _modifications(plan: Plan) -> Iterator[tuple[Modification, ...]]:
    ids = [step.id for step in plan.steps]
    yield (AddSteps((make_new_step(),)),)
    yield (AddSteps((make_new_step(),), after=0),)
    for here in range(len(ids) - 1):
        swapped = (*ids[:here], ids[here + 1], ids[here], *ids[here + 2 :])
        yield (ReorderSteps(swapped),)
    for step_id in ids:
        yield (RemoveStep(step_id),)
        yield (FailStep(step_id, "no use"),)
        yield (FailStep(step_id, "try again", retry=True),)
        yield (RetryStep(step_id),)
        yield (UpdateInstructions(step_id, "Look again."),)
    if ids:
        yield (FailStep(ids[0], "no use"), RetryStep(ids[0]))
        yield (UpdateInstructions(ids[0], "Look again."), RemoveStep(StepId("nowhere")))
