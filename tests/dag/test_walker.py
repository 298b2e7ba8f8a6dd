from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_chain, make_stage, make_step, recipes
from dag_runs import StageRun, dag_counts, graphs_of, make_stage_run, origins_of, runs, stage_runs
from waybook.dag.expansion.units import ProducedDocument, Unit
from waybook.dag.graph import Graph, StepState, Walk, graph_of, walk
from waybook.dag.model import Dag, JobStatus, Recipe, Stage

RUNNING = StepState(opened=True, closed=False, total=2, done=1)
DONE = replace(RUNNING, done=2)
CLOSED = replace(DONE, closed=True)


class Event(StrEnum):
    """Events in a stage; all except the retry are about a single job."""

    FINISH = "the job completes its unit of work"
    CONTINUE = "the job ends, and a new job continues its unit of work"
    FAIL = "the job fails, and can be claimed again"
    DIE = "the agent of the job disappears, and the lease expires"
    GIVE_UP = "the job fails permanently"
    RETRY = "a person retries every job that failed permanently"


Events = Sequence[tuple[Event, int]]
EVENTS = st.lists(st.tuples(st.sampled_from(Event), st.integers(0, 1000)), max_size=60)


@dataclass(slots=True)
class Job:
    unit: Unit
    status: JobStatus = JobStatus.PENDING


@dataclass(slots=True)
class Workshop:
    """Simulated stage with its jobs; `walk` decides which steps open and close."""

    run: StageRun
    jobs: dict[str, list[Job]] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)
    #: Jobs that an agent can claim; `failed` has those whose last attempt failed.
    open: list[Job] = field(default_factory=list)
    failed: list[Job] = field(default_factory=list)
    made: dict[str, list[ProducedDocument]] = field(default_factory=dict)

    def count_of(self, key: str) -> int:
        return len(self.run.units(key))

    def state(self, key: str) -> StepState:
        """Return the state of a step; a unit of work is done when all its jobs are completed."""
        jobs = self.jobs[key]
        left = {job.unit.number for job in jobs if job.status is not JobStatus.COMPLETED}
        total = len({job.unit.number for job in jobs})
        return StepState(
            opened=True, closed=key in self.closed, total=total, done=total - len(left)
        )

    def walk(self) -> Walk:
        states = {key: self.state(key) for key in self.jobs}
        return walk(self.run.graph, states, self.count_of)

    def happen(self, event: Event, choice: int) -> None:
        """Apply an event, to one job or to all failed jobs; then apply what `walk` decides."""
        if event is Event.RETRY:
            for job in self.failed:
                self.offer(job)
            self.failed = []
        elif self.open:
            self.happen_to(self.open.pop(choice % len(self.open)), event)
        self.follow(self.walk())

    def happen_to(self, job: Job, event: Event) -> None:
        match event:
            case Event.FINISH:
                job.status = JobStatus.COMPLETED
                self.made.setdefault(job.unit.step_key, []).extend(job.unit.makes)
            case Event.CONTINUE:
                job.status = JobStatus.COMPLETED
                self.insert(job.unit)
            case Event.GIVE_UP:
                job.status = JobStatus.FAILED
                self.failed.append(job)
            case _:
                self.offer(job)

    def offer(self, job: Job) -> None:
        job.status = JobStatus.RETRYING
        self.open.append(job)

    def insert(self, unit: Unit) -> None:
        job = Job(unit)
        self.jobs[unit.step_key].append(job)
        self.open.append(job)

    def follow(self, step_changes: Walk) -> None:
        """Check the decision of `walk`, and create the jobs of the steps that it opens."""
        place = {key: number for number, key in enumerate(self.run.graph.order)}
        for keys in (step_changes.closed, step_changes.opened):
            assert list(keys) == sorted(keys, key=place.__getitem__)
        for key in step_changes.opened:
            assert key not in self.jobs
            self.jobs[key] = []
            for unit in self.run.units(key):
                self.insert(unit)
        for key in step_changes.closed:
            assert key not in self.closed
            assert self.state(key).done == self.state(key).total
        self.closed += step_changes.closed
        for key in step_changes.opened:
            assert set(self.closed).issuperset(self.run.graph.predecessors[key])
        if step_changes.opened or step_changes.closed:
            assert self.walk() == Walk((), ())

    def work(self, events: Events) -> None:
        """Start the stage, apply these events, and then complete the remaining jobs."""
        self.follow(walk(self.run.graph, {}, self.count_of))
        for event, choice in events:
            self.happen(event, choice)
        while self.open or self.failed:
            self.happen(Event.FINISH if self.open else Event.RETRY, 0)


@given(recipes(), EVENTS)
def test_every_step_closes_after_any_order_of_job_events(recipe: Recipe, events: Events) -> None:
    workshop = Workshop(make_stage_run(Stage("stage", "Stage", recipe), ["a", "b"]))
    workshop.work(events)
    assert {*workshop.run.graph.order} <= {*workshop.closed}
    assert sorted(workshop.closed) == sorted(workshop.jobs) == sorted(workshop.run.graph.order)


@given(runs(), EVENTS)
def test_every_stage_of_any_run_creates_exactly_the_expected_jobs(
    drawn: tuple[Dag, dict[str, list[str]]], events: Events
) -> None:
    dag, models_of = drawn
    counts = dag_counts(dag, graphs_of(dag), models_of)
    for slug, run in stage_runs(dag, models_of).items():
        workshop = Workshop(run)
        workshop.work(events)
        assert {*run.graph.order} <= {*workshop.closed}
        assert {key: workshop.state(key).total for key in workshop.jobs} == counts[slug].units
        left = origins_of(made for key in run.graph.leaves for made in workshop.made.get(key, ()))
        assert set(left.lineages) == set(counts[slug].leaves.lineages)
        assert set(left.authors) == set(counts[slug].leaves.authors)


def graph(*edges: tuple[str, str], keys: str = "") -> Graph:
    names = dict.fromkeys([*keys, *(end for edge in edges for end in edge)])
    return graph_of(make_stage("s", *map(make_step, names), edges=edges).recipe)


def two(_: str) -> int:
    return 2


def none(_: str) -> int:
    return 0


def test_step_without_jobs_closes_immediately_and_opens_the_successor() -> None:
    counts = Counter({"a": 0, "b": 0, "c": 2, "d": 2})
    chain = graph(*make_chain(*"abcd"))
    assert walk(chain, {}, counts.__getitem__) == Walk(("a", "b"), ("a", "b", "c"))


def test_jobs_of_a_skipped_step_are_not_counted() -> None:
    steps = [make_step("a", skip=True), make_step("b")]
    skipping = graph_of(make_stage("s", *steps, edges=[("a", "b")]).recipe)
    assert walk(skipping, {}, {"b": 2}.__getitem__) == Walk(("a",), ("a", "b"))


def test_starting_a_stage_without_jobs_closes_every_step() -> None:
    keys = [f"s{number}" for number in range(10_000)]
    chain = graph(*make_chain(*keys))
    step_changes = walk(chain, {}, none)
    assert step_changes.closed == step_changes.opened == chain.order
    assert {*chain.order} <= {*step_changes.closed}


def test_closed_step_stays_closed_when_number_of_done_jobs_decreases() -> None:
    reopened = replace(CLOSED, done=0)
    assert walk(graph(("a", "b")), {"a": reopened, "b": RUNNING}, two) == Walk((), ())


@given(recipes())
def test_starting_a_stage_counts_the_jobs_of_each_step_once(recipe: Recipe) -> None:
    calls: Counter[str] = Counter()

    def count_of(key: str) -> int:
        calls[key] += 1
        return 0

    recipe_graph = graph_of(recipe)
    walk(recipe_graph, {}, count_of)
    assert calls == Counter(key for key in recipe_graph.order if not recipe_graph.steps[key].skip)
