"""Every attempt at a step or job has one holder, even if users share session names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_step as a_recipe_step
from plan_builders import NOON, make_new_step, numbered_ids
from run_env import make_run, make_stage_run
from waybook.core.decision_context import Actor, Channel, DecisionContext, Holder
from waybook.dag.model import Strategy
from waybook.plan.create import NewPlan, create
from waybook.plan.model import DecisionKind, PlanStatus, StepId
from waybook.plan.modify import RetryStep, modify
from waybook.plan.next_step import StepReady, next_step
from waybook.plan.review import ReviewRequest, decide, request_review
from waybook.plan.submit import Submission, submit
from waybook.run.next_job import JobReady, next_job

#: Attempt at a step or job: the id of the step or job, and the number of the attempt.
Attempt: TypeAlias = tuple[str, int]

ACTORS = st.builds(
    Actor,
    user=st.sampled_from(["ann", "bob"]),
    channel=st.just(Channel.MCP),
    session=st.sampled_from([None, "main", "main", "other"]),
    # Use several credentials, because all credentials of a user must identify the same user.
    principal=st.sampled_from(["token:1", "token:2"]),
)
CALLS = st.sampled_from(["ask", "ask", "ask", "another", "submit", "take_back", "wait", "review"])
MOVES = st.lists(st.tuples(CALLS, ACTORS, st.integers(0, 99)), max_size=40)


@dataclass(slots=True)
class Holdings:
    """Record of the holder of each attempt at a step or job, as taken from replies."""

    holders: dict[Attempt, Holder] = field(default_factory=dict)

    def check(
        self, claimed: Attempt, actor: Actor, held_before: list[Attempt], *, another: bool
    ) -> None:
        """Check that this attempt is new, or that the caller's conversation already held it."""
        before = self.holders.setdefault(claimed, actor.holder)
        assert before == actor.holder
        mine = [
            attempt
            for attempt in held_before
            if actor.holder.is_same_conversation(self.holders[attempt])
        ]
        if claimed in held_before:
            assert claimed in mine
        if mine and not another:
            assert claimed in mine


class PlanDesk:
    """A plan of five steps, on which the holder tests make calls."""

    def __init__(self) -> None:
        self.minutes, self.new_id = 0, numbered_ids()
        new = NewPlan(name="Any", research_question="Why?", steps=(make_new_step(),) * 5)
        self.plan = create(new, self.moment(Actor("ann", Channel.MCP))).plan

    def moment(self, actor: Actor) -> DecisionContext:
        now = NOON + timedelta(minutes=self.minutes)
        return DecisionContext(now=now, actor=actor, new_id=self.new_id, new_uuid=self.new_id)

    def held(self) -> dict[Attempt, Holder]:
        return {(s.id, s.attempt): s.holder for s in self.plan.steps if s.holder is not None}

    def ask(self, actor: Actor, *, another: bool) -> Attempt | None:
        decided = next_step(self.plan, self.moment(actor), another=another)
        self.plan = decided.plan
        reply = decided.reply
        return (reply.step.id, reply.step.attempt) if isinstance(reply, StepReady) else None

    def submit(self, actor: Actor, attempt: Attempt) -> None:
        done = Submission(result_summary=1, attempt=attempt[1])
        self.plan = submit(self.plan, StepId(attempt[0]), done, self.moment(actor)).plan

    def take_back(self, actor: Actor, attempt: Attempt) -> None:
        again = (RetryStep(StepId(attempt[0])),)
        self.plan = modify(self.plan, again, self.moment(actor)).plan

    def review(self, actor: Actor, attempt: Attempt) -> None:
        if self.plan.status is PlanStatus.AWAITING_REVIEW:
            return
        request = ReviewRequest(summary="Right?", attempt=attempt[1])
        self.plan = request_review(self.plan, StepId(attempt[0]), request, self.moment(actor)).plan
        person = self.moment(Actor("pat", Channel.DASHBOARD))
        self.plan = decide(self.plan, DecisionKind.MODIFY, person, feedback="Again.").plan

    def wait(self) -> None:
        self.minutes += 16


class RunDesk:
    """A run with two models and three jobs for each, on which the holder tests make calls."""

    def __init__(self) -> None:
        steps = [a_recipe_step(name, Strategy.ALL_TO_ONE) for name in "abc"]
        self.world = make_run(make_stage_run(*steps))

    def held(self) -> dict[Attempt, Holder]:
        jobs = self.world.records.jobs.values()
        return {(j.id, j.attempt): j.holder for j in jobs if j.holder is not None}

    def ask(self, actor: Actor, *, another: bool) -> Attempt | None:
        reply = self.world.ask(actor, another=another)
        return (reply.job.id, reply.job.attempt) if isinstance(reply, JobReady) else None

    def submit(self, actor: Actor, attempt: Attempt) -> None:
        self.world.submit(self.world.job(attempt[0]), "text", who=actor)

    def take_back(self, _: Actor, attempt: Attempt) -> None:
        self.world.fail(self.world.job(attempt[0]))

    def review(self, _: Actor, __: Attempt) -> None:
        """Do nothing: jobs have no reviews."""

    def wait(self) -> None:
        self.world.pass_time()


def check_moves(page_context: PlanDesk | RunDesk, moves: list[tuple[str, Actor, int]]) -> None:
    """Make the calls; check after each call that no attempt has changed its holder."""
    holdings = Holdings()
    for name, actor, number in moves:
        held = [*page_context.held()]
        if name in {"ask", "another"}:
            claimed = page_context.ask(actor, another=name == "another")
            if claimed is not None:
                holdings.check(claimed, actor, held, another=name == "another")
                assert page_context.held()[claimed] == actor.holder
        elif name == "wait":
            page_context.wait()
        elif held:
            call: Callable[[Actor, Attempt], None] = getattr(page_context, name)
            call(actor, held[number % len(held)])
        assert all(
            holdings.holders[attempt] == holder for attempt, holder in page_context.held().items()
        )


@given(MOVES)
def test_each_step_attempt_has_a_single_holder_after_any_calls(
    moves: list[tuple[str, Actor, int]],
) -> None:
    check_moves(PlanDesk(), moves)


@given(MOVES)
def test_each_job_attempt_has_a_single_holder_after_any_calls(
    moves: list[tuple[str, Actor, int]],
) -> None:
    check_moves(RunDesk(), moves)


def test_next_job_is_never_a_held_job_of_another_user() -> None:
    """The rule checks the job's holder, in case the store returns the job of another user."""
    ann, bob = (Actor(user, Channel.MCP, "main") for user in ("ann", "bob"))
    world = RunDesk().world
    held = world.claim(ann)
    free = world.records.free()
    decided = next_job(
        world.run, world.chart, world.moment(bob), held=held, candidate=free, open_jobs=()
    )
    assert isinstance(decided.reply, JobReady)
    assert decided.reply.job.id != held.id
