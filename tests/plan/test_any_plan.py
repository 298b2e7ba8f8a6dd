"""Random plans, which stay valid and equal their replayed audits after any calls."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from plan_builders import ANN, BOB, NOON, PAT, make_context, make_new_step, numbered_ids
from plan_invariants import check_decision, check_state, known_rows, rows_of
from waybook.core.changes import Change, replay
from waybook.core.decision_context import DecisionContext
from waybook.errors import WaybookError
from waybook.json_values import Json
from waybook.plan.create import NewPlan, create
from waybook.plan.draft import Decision
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
    StepStatus,
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
    SetDependencies,
    UpdateInstructions,
    modify,
)
from waybook.plan.next_step import next_step
from waybook.plan.ordering import steps_before
from waybook.plan.progress import count_done, percent
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.settle import detect_stall, resume_session
from waybook.plan.submit import Submission, submit, submit_and_take_next

ACTORS = (ANN, BOB, PAT, ANN._replace(session=None), BOB._replace(session="a"))
EXPRESSIONS = (
    "true",
    "false",
    "result == 1",
    "result > 1 || plan.failed > 0",
    "result.sources.exists(s, s == 1)",
    "step.attempt > 1 && confidence == null",
    "plan.done * 2 > plan.total",
)
#: Conditions of the steps that calls add.
ADDED_CONDITIONS = (
    NewCondition(expression="result == 1", action=BranchAction.REPEAT, max_repeats=2),
    NewCondition(expression="result == 2", action=BranchAction.FAIL),
)
RESULTS: tuple[Json, ...] = (0, 1, 2, None, "text", {"sources": [1]}, {"sources": []})


@st.composite
def conditions(draw: st.DrawFn, count: int) -> NewCondition:
    order = draw(st.integers(1, count))
    actions = [a for a in BranchAction if a is not BranchAction.SKIP_TO or order < count]
    action = draw(st.sampled_from(actions))
    skips = action is BranchAction.SKIP_TO
    return NewCondition(
        after_step_order=order,
        expression=draw(st.sampled_from(EXPRESSIONS)),
        action=action,
        target_step_order=draw(st.integers(order + 1, count)) if skips else None,
        from_step_order=draw(st.none() | st.integers(1, count)),
        max_repeats=draw(st.integers(1, 3)),
        on_exhausted=draw(st.none() | st.sampled_from(OnExhausted)),
        steps=draw(added_steps(order, count)),
    )


@st.composite
def added_steps(draw: st.DrawFn, order: int, count: int) -> tuple[NewStep, ...]:
    """Generate two steps that a condition of step `order` adds, with random dependencies."""
    existing = [*range(1, order + 1), *range(order + 3, count + 3)]
    some = st.lists(st.sampled_from(existing), max_size=1)
    both = st.lists(st.sampled_from([order + 1, *existing]), max_size=2)
    first, second = make_new_step("More."), make_new_step("Much more.")
    return (
        replace(first, depends_on=tuple(draw(some)), conditions=ADDED_CONDITIONS),
        replace(second, depends_on=tuple(draw(both))),
    )


@st.composite
def new_plans(draw: st.DrawFn, *, is_tied: bool = False) -> NewPlan:
    """Generate a plan; with `is_tied`, each step except the first depends on others before it."""
    count = draw(st.integers(1, 12))
    dependencies = [
        draw(st.lists(st.integers(1, n), min_size=int(is_tied), max_size=2))
        for n in range(1, count)
    ]
    before = [(), *map(tuple, dependencies)] if is_tied or draw(st.booleans()) else [()] * count
    return NewPlan(
        name="Any",
        research_question="Why?",
        steps=tuple(
            replace(make_new_step(f"Step {n}."), depends_on=before[n]) for n in range(count)
        ),
        conditions=tuple(draw(st.lists(conditions(count), max_size=1 if is_tied else 8))),
        sequential=draw(st.booleans()),
    )


@dataclass(slots=True)
class Story:
    """Plan under test, with all audited changes and all submitted results."""

    plan: Plan
    minutes: int = 0
    changes: list[Change] = field(default_factory=list)
    results: dict[str, Json] = field(default_factory=dict)
    new_id: Callable[[], str] = field(default_factory=numbered_ids)

    def moment(self, number: int) -> DecisionContext:
        now = NOON + timedelta(minutes=self.minutes)
        return DecisionContext(now, ACTORS[number % len(ACTORS)], self.new_id, self.new_id)

    def take(self, decided: Decision[object], who: str) -> None:
        """Check a decision, and continue with the plan that it gives."""
        check_decision(self.plan, decided, who)
        self.changes += [change for entry in decided.entries for change in entry.changes]
        seen = NOON + timedelta(minutes=self.minutes)
        steps = tuple(
            step._replace(last_seen_at=seen) if step.id in decided.touched else step
            for step in decided.plan.steps
        )
        self.plan = decided.plan._replace(steps=steps)
        check_state(self.plan)


def make_story(new: NewPlan) -> Story:
    new_id = numbered_ids()
    made = create(new, DecisionContext(NOON, ANN, new_id, new_id))
    changes = [change for entry in made.entries for change in entry.changes]
    return Story(made.plan, changes=changes, new_id=new_id)


CALLS = (
    *("next",) * 3,
    *("submit",) * 4,
    *("late", "review", "decide", "add", "remove", "reorder", "update", "fail", "retry"),
    *("reclaim", "conditions", "depend", "cancel", "take_next", "wait", "stall", "arrive"),
)
Move = tuple[str, int]
moves = st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 2**12)), max_size=40)


def play(story: Story, move: Move) -> None:
    """Make one call, which succeeds, or raises a documented error without changing anything."""
    name, number = move
    if name == "wait":
        story.minutes += number % 45
        return
    before, moment = story.plan, story.moment(number)
    step = before.steps[number % len(before.steps)] if before.steps else None
    try:
        decided = _call(name, number, story, step, moment)
    except WaybookError:
        assert story.plan is before
        return
    story.take(decided, moment.actor.user)
    if name in {"submit", "take_next"} and step and decided.refusal is None:
        story.results[step.id] = RESULTS[number % len(RESULTS)]


def _call(
    name: str, number: int, story: Story, step: Step | None, context: DecisionContext
) -> Decision[object]:
    plan = story.plan
    feedback = "Again." if number % 3 else None
    calls: dict[str, Callable[[], Decision[object]]] = {
        "next": lambda: next_step(plan, context, another=number % 7 == 0),
        "decide": lambda: decide(plan, list(DecisionKind)[number % 4], context, feedback=feedback),
        "stall": lambda: detect_stall(plan, context),
        "arrive": lambda: resume_session(plan, context),
    }
    if name in calls:
        return calls[name]()
    if step is None or name == "add":
        after = number % (len(plan.steps) + 1)
        before = (after + 1, number % (len(plan.steps) + 2) + 1)[: number % 3]
        added = (make_new_step(), make_new_step(depends_on=before))
        return modify(plan, (AddSteps(added, after),), context)
    return _call_naming(name, number, plan, step, context)


def _call_naming(
    name: str, number: int, plan: Plan, step: Step, context: DecisionContext
) -> Decision[object]:
    result = RESULTS[number % len(RESULTS)]
    if name == "submit":
        attempt = step.attempt if number % 2 else None
        return submit(plan, step.id, Submission(result_summary=result, attempt=attempt), context)
    if name == "take_next":
        submission = Submission(result_summary=result, attempt=step.attempt)
        return submit_and_take_next(plan, step.id, submission, context)
    if name == "late":
        other = step.attempt + (number % 2 or -1)
        return submit(plan, step.id, Submission(result_summary=result, attempt=other), context)
    if name == "review":
        return request_review(plan, step.id, ReviewRequest(summary="Right?"), context)
    return modify(plan, _modifications(name, number, plan, step), context)


def _modifications(name: str, number: int, plan: Plan, step: Step) -> tuple[Modification, ...]:
    turned = number % len(plan.steps)
    ids = [s.id for s in plan.steps]
    modifications: dict[str, tuple[Modification, ...]] = {
        "remove": (RemoveStep(step.id),),
        "reorder": (ReorderSteps((*ids[turned:], *reversed(ids[:turned]))),),
        "update": (UpdateInstructions(step.id, f"New {number}."),),
        "fail": (FailStep(step.id, "No use.", retry=number % 3 == 0),),
        "retry": (RetryStep(step.id),),
        "reclaim": (FailStep(step.id, "Lost."), RetryStep(step.id)),
        "conditions": (SetConditions(step.id, ADDED_CONDITIONS[: number % 3]),),
        "depend": (SetDependencies(step.id, (number % len(plan.steps) + 1,)),),
        "cancel": (CancelPlan("Not needed.") if number % 16 == 0 else RetryStep(step.id),),
    }
    return modifications[name]


@given(new=new_plans(), calls=moves)
def test_plan_stays_valid_and_closable_after_random_calls(new: NewPlan, calls: list[Move]) -> None:
    story, done = make_story(new), 0
    for move in calls:
        play(story, move)
        done = check_progress(story.plan, done)
    check_replay(story)
    _finish(story)
    assert story.plan.status in CLOSED_PLAN or not story.plan.steps


def check_progress(plan: Plan, before: int) -> int:
    """Check that at least `before` steps are done; return how many are done."""
    done, total = count_done(plan.statuses()), len(plan.steps)
    assert before <= done <= total
    assert 0 <= percent(done, total) <= 100
    assert (percent(done, total) == 100) <= (done * 200 >= total * 199)
    return done


def check_replay(story: Story) -> None:
    """Check that a replay of the audit gives the rows of the plan."""
    rows = replay(story.changes)
    replayed = known_rows(rows)
    last = story.plan.review
    if last:
        replayed["review"] = {last.id: replayed["review"][last.id]}
    assert replayed == rows_of(story.plan)
    for step_id, result in story.results.items():
        assert rows["step"][step_id].get("result_summary") == result
    assert set(rows.get("session", {})) == story.plan.sessions


def _finish(story: Story) -> None:
    # Steps may be repeated, so closing the plan may take many rounds.
    for _ in range(2_000):
        if story.plan.status in CLOSED_PLAN:
            return
        open_steps = [
            number
            for number, step in enumerate(story.plan.steps)
            if step.status in {StepStatus.PENDING, StepStatus.IN_PROGRESS}
        ]
        moment = story.moment(0)
        if story.plan.review and story.plan.review.decision is None:
            story.take(decide(story.plan, DecisionKind.SKIP, moment), "ann")
        elif open_steps:
            step = story.plan.steps[open_steps[0]]
            done = Submission(result_summary=0, attempt=step.attempt)
            story.take(submit(story.plan, step.id, done, moment), "ann")
        else:
            return


#: Calls that claim another step; and calls that complete, add, remove, move, fail or retry steps.
claims = st.tuples(st.just("next"), st.integers(0, 2**8).map(lambda number: 7 * number))
changes = ("submit", "take_next", "add", "remove", "remove", "reorder", "fail", "retry", "depend")
others = st.tuples(st.sampled_from(changes), st.integers(0, 2**12))


@given(
    new=new_plans() | new_plans(is_tied=True),
    calls=st.lists(claims | others, min_size=10, max_size=40),
)
def test_claimed_steps_have_no_open_current_or_former_dependencies(
    new: NewPlan, calls: list[Move]
) -> None:
    story = make_story(new)
    depended: dict[StepId, set[StepId]] = {}
    for name, number in calls:
        before = story.plan
        play(story, (name, number))
        plan = story.plan
        _note_dependencies(depended, before, plan, is_replaced=name == "depend")
        if name in {"next", "take_next"}:
            _check_claims(depended, before, plan)


def _note_dependencies(
    depended: dict[StepId, set[StepId]], before: Plan, plan: Plan, *, is_replaced: bool
) -> None:
    """Record in `depended` the dependencies that each step has or had.

    Steps that depended on a removed step get its dependencies instead. With `is_replaced`, steps
    with changed dependencies keep only the new ones.
    """
    old = {step.id: step.depends_on for step in before.steps}
    for removed in old.keys() - {step.id for step in plan.steps}:
        inherited = depended.pop(removed, set())
        for known in depended.values():
            if removed in known:
                known.update(inherited)
                known.remove(removed)
    for step in plan.steps:
        is_new = is_replaced and step.depends_on != old[step.id]
        known = set() if is_new else depended.get(step.id, set())
        depended[step.id] = known | set(step.depends_on)


def _check_claims(depended: dict[StepId, set[StepId]], before: Plan, plan: Plan) -> None:
    """Check that all dependencies of the steps claimed since `before` are closed."""
    running = {step.id for step in before.steps_with_status(StepStatus.IN_PROGRESS)}
    running |= {step.id for step in before.steps_with_status(StepStatus.AWAITING_INPUT)}
    still_open = {step.id: step for step in plan.steps if step.status not in TERMINAL_STEP}
    for claimed in plan.steps_with_status(StepStatus.IN_PROGRESS):
        if claimed.id in running:
            continue
        assert not depended[claimed.id] & still_open.keys()
        if plan.sequential and not claimed.depends_on:
            for earlier in plan.steps[: claimed.order - 1]:
                waits_for = steps_before(plan.steps, [earlier.id]) & still_open.keys()
                later = any(still_open[i].order >= claimed.order for i in waits_for)
                assert earlier.status in TERMINAL_STEP or later


@given(data=st.data(), count=st.integers(2, 12))
def test_skip_to_condition_after_reordering_skips_the_steps_between(
    data: st.DataObject, count: int
) -> None:
    target = data.draw(st.integers(2, count))
    skip = NewCondition(
        after_step_order=1, expression="true", action=BranchAction.SKIP_TO, target_step_order=target
    )
    new = NewPlan(
        name="Any", research_question="Why?", steps=(make_new_step(),) * count, conditions=(skip,)
    )
    plan = create(new, make_context()).plan
    first, aimed = plan.steps[0].id, plan.steps[target - 1].id
    order: list[StepId] = data.draw(st.permutations([step.id for step in plan.steps]))
    plan = modify(plan, (ReorderSteps(tuple(order)),), make_context()).plan
    done = submit(plan, first, Submission(result_summary=0), make_context()).plan
    between = order[order.index(first) + 1 : order.index(aimed)]
    assert [step.id for step in done.steps_with_status(StepStatus.SKIPPED)] == between
