"""Small plans for the model check of the plan rules, and all calls that are possible on them.

The plan rules are the pure functions of `waybook.plan`. Each plan covers one part of the rules. It
is small enough to explore all its states.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

from plan_builders import ANN, BOB, PAT, make_new_step
from waybook.core.decision_context import DecisionContext, ReviewPolicy
from waybook.json_values import Json
from waybook.plan.create import NewPlan
from waybook.plan.draft import Decision, detect_stall
from waybook.plan.model import (
    CLOSED_PLAN,
    TERMINAL_STEP,
    BranchAction,
    DecisionKind,
    NewCondition,
    NewStep,
    OnExhausted,
    Plan,
    Step,
    StepId,
    StepType,
)
from waybook.plan.modify import (
    AddSteps,
    CancelPlan,
    FailStep,
    Modification,
    RemoveStep,
    ReorderSteps,
    RetryStep,
    SetConditions,
    UpdateInstructions,
    modify,
)
from waybook.plan.next_step import next_step
from waybook.plan.progress import DEFAULT_STALL_THRESHOLD
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.submit import Submission, submit

#: Users who make the explored calls: two agents, and a person who may decide reviews.
ACTORS = (ANN, BOB, PAT._replace(reviews=True, principal="pat"))
ADDED = make_new_step(max_attempts=1)
Call = Callable[[], Decision[object]]
Moments = tuple[DecisionContext, DecisionContext, DecisionContext]
Names = Mapping[StepId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Plan for the model check, the calls to try on it, and the limits of the exploration."""

    name: str
    steps: tuple[NewStep, ...]
    conditions: tuple[NewCondition, ...] = ()
    #: For each step, the results that agents try to submit; for a closed step, only the first.
    results: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    #: For each step, the results that agents try to send with a request for a review.
    reviewed: Mapping[str, tuple[Json, ...]] = field(default_factory=dict)
    policy: ReviewPolicy = ReviewPolicy.RELAYED
    #: Limit of the exploration: a state with more steps is checked, but no calls are tried in it.
    max_steps: int = 3
    #: Limit of the exploration for added steps, with the same effect as `max_steps`.
    max_added: int = 3
    #: True if states in which the original steps have another order are explored.
    orders: bool = False
    #: True if calls that claim a second step are tried.
    another: bool = True
    #: True if calls that add, remove or move steps are tried.
    changes: bool = True
    #: Each element is a list of conditions that a `set_conditions` call tries to give to a step.
    new_conditions: tuple[tuple[NewCondition, ...], ...] = ()
    #: True if calls with two modifications of the same step are tried.
    pairs: bool = False
    #: True if a step without dependencies waits for all steps before it.
    sequential: bool = False

    def new_plan(self) -> NewPlan:
        return NewPlan(
            name="Rivers",
            research_question="Why?",
            steps=self.steps,
            conditions=self.conditions,
            sequential=self.sequential,
        )

    def results_of(self, name: str) -> tuple[Json, ...]:
        """Return the results that agents submit for the step with this name."""
        return self.results.get(name, ("plain",))

    def calls(self, plan: Plan, names: Names, moments: Moments) -> Iterator[tuple[str, Call]]:
        """Yield every call to try in this state, with the name of the caller."""
        ann, bob, pat = moments
        for moment in (ann, bob):
            yield moment.actor.user, partial(next_step, plan, moment)
        # The rules do not distinguish between agents, so it is enough if Ann claims several steps.
        if self.another:
            yield "ann", partial(next_step, plan, ann, another=True)
        yield "pat", partial(detect_stall, plan, pat)
        for step in plan.steps:
            yield from self._work(plan, step, names[step.id], moments)
        for kind in DecisionKind:
            yield "bob", partial(decide, plan, kind, bob, feedback="Again.")
            yield "pat", partial(decide, plan, kind, pat, feedback="Again.")
        for modifications in self._modifications(plan):
            yield "pat", partial(modify, plan, modifications, pat)
        yield "pat", partial(modify, plan, (), pat, expected_revision=plan.revision + 1)

    def _work(
        self, plan: Plan, step: Step, name: str, moments: Moments
    ) -> Iterator[tuple[str, Call]]:
        ann, bob, _ = moments
        # The rules refuse any result for a closed step without reading it, so one result is enough.
        is_open = plan.status not in CLOSED_PLAN and step.status not in TERMINAL_STEP
        for result in self.results_of(name)[: None if is_open else 1]:
            done = Submission(result_summary=result, attempt=step.attempt)
            yield "ann", partial(submit, plan, step.id, done, ann)
            yield "ann", partial(submit, plan, step.id, done, ann, DEFAULT_STALL_THRESHOLD)
        late = Submission(result_summary="plain", attempt=step.attempt - 1)
        yield "bob", partial(submit, plan, step.id, late, bob, DEFAULT_STALL_THRESHOLD)
        yield "bob", partial(submit, plan, step.id, Submission(result_summary="plain"), bob)
        for result in self.reviewed.get(name, (None,))[: None if is_open else 1]:
            request = ReviewRequest(
                summary="Is this right?", attempt=step.attempt, result_summary=result
            )
            yield "ann", partial(request_review, plan, step.id, request, ann)

    def _modifications(self, plan: Plan) -> Iterator[tuple[Modification, ...]]:
        ids = [step.id for step in plan.steps]
        yield (CancelPlan("enough"),)
        if self.changes:
            yield (AddSteps((ADDED,)),)
            yield (AddSteps((ADDED,), after=0),)
            for here in range(len(ids) - 1):
                swapped = (*ids[:here], ids[here + 1], ids[here], *ids[here + 2 :])
                yield (ReorderSteps(swapped),)
        for step_id in ids:
            single = [*self._step_modifications(step_id)]
            yield from ((modification,) for modification in single)
            if self.pairs:
                yield from product(single, repeat=2)
                for other in (AddSteps((ADDED,), after=0), CancelPlan("enough")):
                    yield from ((other, modification) for modification in single)
                    yield from ((modification, other) for modification in single)
        if ids:
            yield (FailStep(ids[0], "no use"), RetryStep(ids[0]))
            yield (UpdateInstructions(ids[0], "Look again."), RemoveStep(StepId("nowhere")))

    def _step_modifications(self, step_id: StepId) -> Iterator[Modification]:
        if self.changes:
            yield RemoveStep(step_id)
        if self.pairs:
            yield UpdateInstructions(step_id, "Look again.")
        yield FailStep(step_id, "no use")
        yield FailStep(step_id, "try again", retry=True)
        yield RetryStep(step_id)
        for conditions in self.new_conditions:
            yield SetConditions(step_id, conditions)


def _when(
    result: str, action: BranchAction, after: int | None = None, **values: object
) -> NewCondition:
    condition = NewCondition(
        expression=f'result == "{result}"', action=action, after_step_order=after
    )
    return replace(condition, **values)  # type: ignore[arg-type]  # fields of NewCondition


def _branches(last: int) -> tuple[NewCondition, ...]:
    """Return a condition for each kind of action; `last` is the last step's number."""
    return (
        NewCondition(expression="true", action=BranchAction.CONTINUE, after_step_order=1),
        _when("skip", BranchAction.SKIP_TO, 1, target_step_order=last),
        _when("add", BranchAction.ADD_STEPS, 1, steps=(ADDED,)),
        _when("fail", BranchAction.FAIL, 1, reason="enough"),
        NewCondition(expression="result.broken", action=BranchAction.FAIL, after_step_order=2),
    )


#: Plan with a condition for each kind of action. A step fails when the holders of its only attempt,
#: or of both its attempts, have become inactive. Calls and conditions can add a step at any
#: position.
BRANCHING = Shape(
    name="branching",
    steps=(make_new_step(max_attempts=1), make_new_step(max_attempts=2)),
    conditions=_branches(2),
    results={"s1": ("plain", "skip", "add", "fail"), "s2": ("plain", {"broken": True})},
    reviewed={"s1": (None, "skip", "fail")},
    max_added=1,
)

#: Plan for calls that modify a step several times or replace its conditions.
MODIFYING = Shape(
    name="modifying",
    steps=(make_new_step(max_attempts=2), make_new_step(max_attempts=1)),
    conditions=(_when("skip", BranchAction.SKIP_TO, 1, target_step_order=2),),
    results={"s1": ("plain", "skip", "fail")},
    max_added=0,
    new_conditions=((), (_when("fail", BranchAction.FAIL),)),
    pairs=True,
)

#: Plan whose condition repeats both steps. If the second step is repeated, its result makes the
#: condition true again.
REPEATING = Shape(
    name="repeating",
    steps=(make_new_step(), make_new_step(max_attempts=1)),
    conditions=(_when("again", BranchAction.REPEAT, 2, from_step_order=1, max_repeats=1),),
    results={"s1": ("plain",), "s2": ("again", "plain"), "x2": ("again",)},
    max_steps=4,
    another=False,
    changes=False,
)

#: Plan with a dependency. A condition adds a step before the dependent step. A review of the
#: checkpoint pauses no other step.
DEPENDING = Shape(
    name="depending",
    steps=(
        make_new_step(max_attempts=1),
        make_new_step(type=StepType.CHECKPOINT, max_attempts=2),
        make_new_step(max_attempts=1, depends_on=(1,)),
    ),
    conditions=(_when("add", BranchAction.ADD_STEPS, 1, steps=(ADDED,)),),
    results={"s1": ("add", "plain")},
    policy=ReviewPolicy.HUMAN,
    max_steps=4,
    another=False,
    changes=False,
)

#: Sequential plan with a loop that asks a person after its last repetition, and with a step that
#: does not wait for the loop.
ORDERED = Shape(
    name="ordered",
    steps=(make_new_step(max_attempts=1), make_new_step(max_attempts=1, depends_on=(1,))),
    conditions=(
        _when("again", BranchAction.REPEAT, 1, max_repeats=1, on_exhausted=OnExhausted.REVIEW),
    ),
    results={"s1": ("again", "plain"), "x1": ("again", "plain")},
    sequential=True,
    max_steps=4,
    another=False,
    changes=False,
)

SHAPES = (BRANCHING, MODIFYING, REPEATING, DEPENDING, ORDERED)
#: The same plans with higher limits; exploring them takes a few minutes longer.
WIDE_SHAPES = (
    replace(
        BRANCHING,
        steps=(*BRANCHING.steps, ADDED),
        conditions=(*_branches(3), _when("skip", BranchAction.SKIP_TO, 2, target_step_order=3)),
        results={**BRANCHING.results, "s2": ("plain", "skip", {"broken": True})},
        orders=True,
        max_added=3,
    ),
    replace(MODIFYING, max_steps=2, max_added=1),
    replace(REPEATING, another=True),
    replace(DEPENDING, another=True),
    replace(DEPENDING, changes=True, max_added=0),
)
