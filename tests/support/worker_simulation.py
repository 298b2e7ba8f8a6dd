"""Simulated workers on a run that finish jobs, submit parts, fail, stop working, or are late.

The workers act at random, but every run must end with a correct result.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest

from plan_builders import ANN, BOB, PAT
from run_env import RunEnv
from run_invariants import report_of_run
from waybook.core.decision_context import Actor
from waybook.dag.graph import output_keys
from waybook.dag.model import JobStatus, JobType, RunState
from waybook.errors import InvalidInput, InvalidTransition, NotAwaitingReview, Refused, StaleAttempt
from waybook.run.model import MAX_ATTEMPTS, MAX_PARTS, Job, step_id
from waybook.run.next_job import (
    AttemptsExhausted,
    AwaitingFeedback,
    JobReady,
    NextJob,
    NothingReady,
    RunComplete,
    StageFailed,
)
from waybook.run.status import awaiting_feedback, run_state
from waybook.run.submit import SubmittedDocument

#: Two workers with a session name, and one without.
WORKERS = (ANN, BOB, PAT)
#: Weights of events: 0 never, 1 normal, 3 more often, 12 almost always. The weight 1 is listed
#: twice, so that it is chosen more often.
MOODS = (0, 1, 1, 3, 12)


@dataclass(slots=True)
class WorkerSimulation:
    world: RunEnv
    chance: Random
    models: Sequence[str]
    #: Jobs as the workers claimed them; another worker may have claimed a job since.
    claims: list[Job] = field(default_factory=list)
    #: For each job that continues another one, the joined texts of the earlier jobs.
    begun: dict[str, str] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def act_at_random(self, most: int) -> None:
        """Perform this many random actions, with a random weight for each kind of action."""
        moods = {move: many * self.chance.choice(MOODS) for move, many in self._moods().items()}
        moves = {**self._habits(), **moods, self.finish: self.chance.choice([1, 3, 6])}
        for move in self.chance.choices([*moves], [*moves.values()], k=most):
            move()
            self.happened[move.__name__] += 1

    def _habits(self) -> dict[Callable[[], None], int]:
        return {
            self.ask: 8,
            self.submit_unexpected_documents: 1,
            self.begin: 1,
            self.look: 1,
            self.give_feedback: 2,
        }

    def _moods(self) -> dict[Callable[[], None], int]:
        return {
            self.go_on: 1,
            self.fail: 2,
            self.wait: 1,
            self.let_leases_expire: 1,
            self.retry: 1,
            self.regenerate: 1,
            self.render: 1,
        }

    def ask(self) -> None:
        model = self.chance.choice([None, None, *self.models])
        kind = self.chance.choice([None, None, None, JobType.PLAN, JobType.EXECUTE])
        another = self.chance.random() < 0.7
        self.check_answer(self.world.ask(self._worker(), model, kind, another=another))

    def check_answer(self, reply: NextJob) -> None:
        """Check that the answer to a request for a job agrees with the state of the run."""
        world, run = self.world, self.world.run
        self.happened[type(reply).__name__] += 1
        match reply:
            case JobReady(job):
                assert job == world.job(job)
                assert job.status is JobStatus.PROCESSING
                assert 1 <= job.tries <= MAX_ATTEMPTS
                self.claims.append(job)
            case NothingReady(open_jobs):
                assert sum(entry.count for entry in open_jobs) == len(world.records.open()) > 0
            case AttemptsExhausted(job):
                assert world.job(job).status is JobStatus.RETRY_LOOP_FAILED
            case StageFailed(slug, steps):
                assert all(run.steps[step_id(slug, key)].failed for key in steps)
                assert run_state(run, world.chart) is RunState.FAILED
            case AwaitingFeedback(stages):
                assert all(world.stage(slug).completed_at for slug in stages)
                assert all(world.stage(slug).feedback is None for slug in stages)
                assert run_state(run, world.chart) is RunState.AWAITING_FEEDBACK
                assert awaiting_feedback(run, world.chart) == stages[0]
            case RunComplete():
                assert run.completed_at is not None
                assert run_state(run, world.chart) is RunState.COMPLETED

    def finish(self) -> None:
        """Submit a result; if its attempt is outdated, check that it is stored as a late result."""
        if claim := self._claim():
            text = self._text(claim)
            if not self._too_late(claim, text):
                self.submit(claim, text)

    def submit(self, job: Job, text: str) -> None:
        """Complete a job; check that its documents contain the texts of all its parts."""
        world = self.world
        done = world.submit(job, text)
        assert world.job(job).status is JobStatus.COMPLETED
        full_text = self.begun.get(job.id, "") + text
        assert {world.records.documents[document_id].content for document_id in done.documents} <= {
            full_text
        }
        assert done.documents

    def go_on(self) -> None:
        claim = self._claim()
        text = self._text()
        if claim and self._makes_list(claim):
            text = "  "
        if claim and not self._too_late(claim, text) and claim.part < MAX_PARTS:
            done = self.world.submit(claim, text, continues=True)
            assert done.continuation is not None
            self.begun[done.continuation.id] = self.begun.get(claim.id, "") + text

    def _too_late(self, claim: Job, text: str) -> bool:
        job, late = self.world.job(claim), len(self.world.records.texts)
        if job.attempt != claim.attempt:
            with pytest.raises(StaleAttempt):
                self.world.submit(claim, text)
            assert len(self.world.records.texts) == late + 1
            return True
        if job.status is not JobStatus.PROCESSING:
            with pytest.raises(InvalidTransition):
                self.world.submit(claim, text)
            is_done = job.status in {JobStatus.COMPLETED, JobStatus.SUPERSEDED}
            is_repeated = is_done and job.held_by == ANN.user
            assert len(self.world.records.texts) == late + (not is_repeated)
            return True
        return False

    def fail(self) -> None:
        if claim := self._claim():
            retryable = self.chance.random() < 0.7
            held = self.world.job(claim)
            if (held.attempt, held.status) == (claim.attempt, JobStatus.PROCESSING):
                failed = self.world.fail(claim, retryable=retryable)
                again = retryable and claim.tries < MAX_ATTEMPTS
                assert (failed.completed_at is None) == again
            else:
                with pytest.raises((StaleAttempt, InvalidTransition)):
                    self.world.fail(claim, retryable=retryable)

    def submit_unexpected_documents(self) -> None:
        """Submit documents that the step does not produce; check that nothing changes."""
        if claim := self._claim(keep=True):
            job, seq = self.world.job(claim), self.world.run.seq
            if (job.attempt, job.status) == (claim.attempt, JobStatus.PROCESSING):
                with pytest.raises(InvalidInput):
                    self.world.submit(claim, SubmittedDocument(content="", document_key="nonsense"))
                assert self.world.run.seq == seq

    def wait(self) -> None:
        self.world.pass_time(timedelta(seconds=self.chance.choice([1, 6, 60])))

    def let_leases_expire(self) -> None:
        """Let all leases expire, so that other workers can claim the jobs."""
        self.world.pass_time()

    def give_feedback(self) -> None:
        slug = self.chance.choice(self.world.chart.order)
        stage = self.world.run.stages.get(slug)
        if stage is None or stage.completed_at is None:
            self._refused(InvalidTransition, self.world.feedback, slug)
        elif stage.feedback is not None:
            self._refused(NotAwaitingReview, self.world.feedback, slug)
        else:
            self.world.feedback(slug, models=self._some_models())

    def begin(self) -> None:
        slug = self.chance.choice(self.world.chart.order)
        if slug in self.world.run.stages:
            assert self.world.begin(slug, self._some_models()) == ()
        else:
            self._refused(InvalidTransition, self.world.begin, slug)

    def retry(self) -> None:
        world = self.world
        slug = self.chance.choice(world.chart.order)
        key = self.chance.choice([None, *world.chart.graphs[slug].order])
        failed = world.records.failed(slug, key)
        assert len(world.retry(slug, key)) == len(failed)
        assert world.records.failed(slug, key) == []

    def regenerate(self) -> None:
        world = self.world
        if world.records.documents:
            document = self.chance.choice([*world.records.documents.values()])
            maker = world.job(world.records.latest(document.id).job_id)
            if maker.status is JobStatus.COMPLETED:
                assert world.regenerate(document.id).unit == maker.unit
            else:
                self._refused(InvalidTransition, world.regenerate, document.id)

    def render(self) -> None:
        self.world.render(self.chance.randint(1, 9))

    def look(self) -> None:
        """Check that the report does not depend on the order of the rows."""
        records = self.world.records.copied()
        stages, steps = dict(records.run.stages), dict(records.run.steps)
        records.run = records.run._replace(
            stages={slug: stages[slug] for slug in reversed(stages)},
            steps={key: steps[key] for key in reversed(steps)},
        )
        assert report_of_run(records) == report_of_run(self.world.records)

    def complete_run(self) -> None:
        world, calls = self.world, 0
        while not isinstance(reply := world.ask(another=True), RunComplete):
            self.check_answer(reply)
            self._follow(reply)
            calls += 1
            assert calls <= 3 * len(world.records.jobs) + 2 * len(world.chart.order)

    def _follow(self, reply: NextJob) -> None:
        match reply:
            case JobReady(job):
                self.submit(job, self._text(job))
            case NothingReady():
                self.world.pass_time()
            case AwaitingFeedback(stages):
                assert self.world.feedback(stages[0], models=self._some_models()) or stages[1:]
            case StageFailed(slug):
                assert self.world.retry(slug)

    def _worker(self) -> Actor:
        return self.chance.choice(WORKERS)

    def _claim(self, *, keep: bool = False) -> Job | None:
        """Return a random job from `claims`, and usually remove it from there."""
        if not self.claims:
            return None
        place = self.chance.randrange(len(self.claims))
        return self.claims[place] if keep or place % 7 == 6 else self.claims.pop(place)

    def _some_models(self) -> list[str] | None:
        if self.chance.random() < 0.3:
            return None
        return self.chance.sample(self.models, self.chance.randint(1, len(self.models)))

    def _text(self, job: Job | None = None) -> str:
        if job is not None and self._makes_list(job):
            return json.dumps([f"item {n}" for n in range(self.chance.randrange(4))])
        return f"<{self.chance.randrange(10**6)}>"

    def _makes_list(self, job: Job) -> bool:
        dag = self.world.chart
        keys = output_keys(dag.graphs[job.stage].steps[job.step_key])
        return any((job.stage, key) in dag.produced_lists for key in keys)

    def _refused(self, error: type[Refused], call: Callable[[str], object], about: str) -> None:
        seq = self.world.run.seq
        with pytest.raises(error) as refusal:
            call(about)
        assert refusal.value.next_call is not None
        assert self.world.run.seq == seq
