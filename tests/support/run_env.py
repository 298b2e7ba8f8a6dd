"""Run for tests of the rules in `waybook.run`; after each call, all invariants are checked."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from dag_builders import make_dag, make_stage
from plan_builders import ANN, NOON, PAT
from run_invariants import check_decision, check_report, check_state
from run_row_store import LEASE, RunRowStore, changes_of
from waybook.core.changes import Change
from waybook.core.decision_context import Actor, DecisionContext
from waybook.core.usage import Usage
from waybook.dag.definitions.checks import check_structure
from waybook.dag.definitions.definition import graphs_of
from waybook.dag.model import Dag, JobType, RecipeStep, Stage
from waybook.dag.progress.report import Report
from waybook.json_values import Json
from waybook.run.failure import fail_job, regenerate, retry_failed
from waybook.run.model import CompiledDag, Job, NewDocument, Run, RunDecision, StageRun, StepRun
from waybook.run.next_job import JobReady, NextJob, next_job
from waybook.run.start import give_feedback, new_run, start_open_stage
from waybook.run.submit import (
    JobDone,
    RenderedPage,
    Submission,
    SubmittedDocument,
    store_rendered,
    submit_job,
)

ReplyT = TypeVar("ReplyT")

RUN = "run"
MODELS = ("alpha", "beta")


def make_compiled_dag(dag: Dag) -> CompiledDag:
    assert check_structure(dag)[0] == []
    return CompiledDag(dag, graphs_of(dag), version=3)


@dataclass(slots=True)
class RunEnv:
    records: RunRowStore
    report: Report | None = None
    decision: RunDecision[object] | None = None
    #: Changes by all decisions about the run so far.
    changes: list[Change] = field(default_factory=list)
    _made: list[int] = field(default_factory=lambda: [0])

    @property
    def run(self) -> Run:
        return self.records.run

    @property
    def chart(self) -> CompiledDag:
        return self.records.chart

    def job(self, job: Job | str) -> Job:
        return self.records.jobs[job if isinstance(job, str) else job.id]

    def jobs(self, step: str) -> list[Job]:
        """Return the jobs of a step except RENDER jobs, in order of creation."""
        jobs = self.records.jobs.values()
        return [j for j in jobs if j.step_key == step and j.job_type is not JobType.RENDER]

    def step(self, key: str) -> StepRun:
        return next(step for step in self.run.steps.values() if step.key == key)

    def stage(self, slug: str) -> StageRun:
        return self.run.stages[slug]

    def documents(self, step: str) -> list[NewDocument]:
        return [
            document for document in self.records.documents.values() if document.step_key == step
        ]

    def reached(self) -> list[str]:
        return [step.key for step in self.run.steps.values()]

    def events(self) -> list[str]:
        return [str(entry.event) for entry in self.decision.entries] if self.decision else []

    def details(self) -> list[dict[str, Json]]:
        return [dict(entry.details) for entry in self.decision.entries] if self.decision else []

    def pass_time(self, gap: timedelta = LEASE + timedelta(seconds=1)) -> None:
        self.records.now += gap

    def moment(self, actor: Actor) -> DecisionContext:
        return DecisionContext(self.records.now, actor, self._new_id, self._new_id)

    def _new_id(self) -> str:
        self._made[0] += 1
        return f"{self._made[0]:06}"

    def ask(self, who: Actor = ANN, *, another: bool = False) -> NextJob:
        held = None if another else self.records.held(who.holder)
        candidate, is_open = self.records.free(), bool(self.records.open())
        moment = self.moment(who)
        return self.keep(
            next_job(self.run, self.chart, moment, held=held, candidate=candidate, is_open=is_open)
        )

    def claim(self, who: Actor = ANN, *, another: bool = True) -> Job:
        while (reply := self.ask(who, another=another)) is None:
            pass
        assert isinstance(reply, JobReady), reply
        return reply.job

    def submit(
        self,
        job: Job,
        *handed: SubmittedDocument | str,
        who: Actor = ANN,
        continues: bool = False,
        usage: Usage | None = None,
    ) -> JobDone:
        submission = Submission(
            documents=tuple(
                SubmittedDocument(content=h) if isinstance(h, str) else h for h in handed
            ),
            attempt=job.attempt,
            continues=continues,
            usage=usage,
        )
        job, records = self.job(job), self.records
        version = 1 if job.document is None else records.latest(job.document).version + 1
        decision = submit_job(
            self.run,
            self.chart,
            job,
            submission,
            self.moment(who),
            parts=records.parts(job),
            version=version,
        )
        return self.keep(decision)

    def fail(self, job: Job, error: str = "no luck", *, retryable: bool = True) -> Job:
        decision = fail_job(
            self.run,
            self.chart,
            self.job(job),
            attempt=job.attempt,
            error=error,
            retryable=retryable,
            context=self.moment(ANN),
        )
        return self.keep(decision)

    def feedback(
        self, stage: str, text: str = "Go on.", models: Sequence[str] | None = None
    ) -> tuple[StageRun, ...]:
        moment = self.moment(PAT)
        return self.keep(give_feedback(self.run, self.chart, stage, text, models, moment))

    def begin(self, stage: str, models: Sequence[str] | None = None) -> tuple[StageRun, ...]:
        decision = start_open_stage(self.run, self.chart, stage, models, self.moment(PAT))
        return self.keep(decision)

    def retry(self, stage: str, step: str | None = None) -> tuple[Job, ...]:
        failed = self.records.failed(stage, step)
        moment = self.moment(PAT)
        return self.keep(retry_failed(self.run, self.chart, stage, failed, moment, step_key=step))

    def regenerate(self, document_id: str) -> Job:
        latest = self.records.latest(document_id)
        job = self.job(latest.job_id)
        return self.keep(regenerate(self.run, self.chart, job, latest.id, self.moment(PAT)))[0]

    def render(self, most: int = 20) -> int:
        waiting = self.records.to_render()[:most]
        pages = [RenderedPage(job=job, markdown="# Text", html="<h1>Text</h1>") for job in waiting]
        return self.keep(store_rendered(self.run, self.chart, pages, self.moment(PAT)))

    def work(self, *steps: str, text: str = "text") -> None:
        """Claim and submit every job of these steps, or of all steps if no step is named."""
        while (job := self._next_of(steps)) is not None:
            self.submit(self.claimed(job), text)

    def claimed(self, job: Job, who: Actor = ANN) -> Job:
        """Claim this job, even if it is not the next one."""
        moment, before = self.moment(who), self.job(job)
        dag = self.chart
        decision = next_job(self.run, dag, moment, held=None, candidate=before, is_open=False)
        reply = self.keep(decision)
        assert isinstance(reply, JobReady)
        return reply.job

    def _next_of(self, steps: Sequence[str]) -> Job | None:
        candidates = [job for job in self.records.open() if not steps or job.step_key in steps]
        return min(candidates, key=lambda job: (job.rank, job.id), default=None)

    def keep(self, decision: RunDecision[ReplyT]) -> ReplyT:
        """Apply a decision and check all invariants; return the reply or raise the error."""
        before = self.records
        self.records = before.copied()
        self.records.write(decision)
        self.decision = decision
        self.changes += changes_of(decision)
        check_decision(before, self.records, decision)
        if decision.entries:
            check_state(self.records)
            self.report = check_report(self.records, self.report)
        if decision.refusal is not None:
            raise decision.refusal
        return decision.reply


def make_run(
    dag: Dag | Stage, models: Sequence[str] = MODELS, items: Sequence[Json] = ("x", "y", "z")
) -> RunEnv:
    compiled_dag = make_compiled_dag(dag if isinstance(dag, Dag) else make_dag(dag))
    empty = Run(id=RUN, name="Rivers", seq=0, completed_at=None, stages={}, steps={})
    world = RunEnv(RunRowStore(chart=compiled_dag, run=empty, now=NOON))
    run_input: Json = {"brief": "Go.", "items": [*items]}
    world.keep(new_run(compiled_dag, RUN, "Rivers", run_input, models, world.moment(ANN)))
    return world


def make_stage_run(*steps: RecipeStep, edges: Sequence[tuple[str, str]] = ()) -> Stage:
    return make_stage("only", *steps, edges=edges)
