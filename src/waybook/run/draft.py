"""Defines the draft of a run, which applies changes to the run and records them for the audit."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.core.changes import Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext
from waybook.core.draft import BaseDraft
from waybook.core.usage import Usage
from waybook.errors import NextCall, Refused
from waybook.json_values import Json
from waybook.run.model import (
    COLUMN_NAMES,
    CompiledDag,
    Job,
    NewDocument,
    Run,
    StageRun,
    StepRun,
    step_id,
)

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class RunDecision(NamedTuple, Generic[ReplyT_co]):
    """Result of a requested change: the reply to send, and the changes still to be written."""

    reply: ReplyT_co
    run: Run
    entries: tuple[Entry, ...] = ()
    jobs: Mapping[str, Job] = MappingProxyType({})
    documents: tuple[NewDocument, ...] = ()
    #: Long texts by row id. The audit stores only their hashes.
    texts: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    touched: tuple[str, ...] = ()
    #: Error to raise after the changes are written. For example, a late result is stored and then
    #: refused.
    refusal: Refused | None = None


ReplyT = TypeVar("ReplyT")


def progress_call(run: Run, why: str = "See the run's progress.") -> NextCall:
    return NextCall("get_run_progress", {"runId": run.id}, why)


#: Maximum number of row changes in one audit entry. If a call makes more, it writes several
#: entries.
MAX_CHANGES_PER_ENTRY = 500


class RunDraft(BaseDraft):
    column_names = COLUMN_NAMES

    def __init__(self, run: Run, compiled_dag: CompiledDag, context: DecisionContext) -> None:
        super().__init__(context)
        self.compiled_dag = compiled_dag
        self.stages = dict(run.stages)
        self.steps = dict(run.steps)
        self._run = run
        self._jobs: dict[str, Job] = {}
        self._documents: list[NewDocument] = []
        self._touched: list[str] = []

    @property
    def run(self) -> Run:
        return self._run

    def add_run(self, run_input: Json) -> None:
        run, compiled_dag = self._run, self.compiled_dag
        row: dict[str, Json] = {
            "name": run.name,
            "dag_slug": compiled_dag.dag.slug,
            "dag_version": compiled_dag.version,
            "input": run_input,
            "completed_at": None,
            "created_at": as_json(self.moment.now),
            "created_by": self.moment.actor.user,
        }
        if run.copied_from is not None:
            row |= {"copied_from": run.copied_from, "copied_seq": run.copied_seq}
        if compiled_dag.item_lists:
            row["lists"] = as_json(run.lists)
        self.insert(Entity.RUN, run.id, row)

    def add_stage(self, stage: StageRun) -> None:
        self.stages[stage.slug] = stage
        self.insert(Entity.STAGE_RUN, stage.slug, stage.as_row())

    def add_step(self, step: StepRun) -> None:
        self.steps[step.id] = step
        self.insert(Entity.STAGE_STEP, step.id, step.as_row())

    def add_job(self, job: Job) -> None:
        self._jobs[job.id] = job
        self.insert(Entity.JOB, job.id, job.as_row())

    def insert_document(self, document: NewDocument) -> None:
        self._documents.append(document)
        self.insert(Entity.DOCUMENT, document.id, document.as_row())

    def record_usage(self, job: Job, attempt: int, usage: Usage | None) -> None:
        """Store the usage of an attempt, even if the result is late and refused."""
        if usage is not None:
            run, used = self._run, usage._replace(model=usage.model or job.model)
            totals = self.insert_usage(
                Entity.RUN, run.id, run.usage, used, job_id=job.id, attempt=attempt
            )
            self._run = run._replace(usage=totals)

    def set_run(self, **values: object) -> None:
        self.note_changes(Entity.RUN, self._run.id, self._run, values)
        self._run = self._run._replace(**values)  # type: ignore[arg-type]  # the keys are fields of Run

    def set_stage(self, slug: str, **values: object) -> None:
        stage = self.stages[slug]
        self.note_changes(Entity.STAGE_RUN, slug, stage, values)
        self.stages[slug] = stage._replace(**values)  # type: ignore[arg-type]  # the keys are fields of StageRun

    def set_step(self, step: StepRun, **values: object) -> StepRun:
        row_id = step.id
        self.note_changes(Entity.STAGE_STEP, row_id, step, values)
        self.steps[row_id] = changed = step._replace(**values)  # type: ignore[arg-type]  # the keys are fields of StepRun
        return changed

    def set_job(self, job: Job, **values: object) -> Job:
        self.note_changes(Entity.JOB, job.id, job, values)
        self._jobs[job.id] = changed = job._replace(**values)  # type: ignore[arg-type]  # the keys are fields of Job
        return changed

    def record_heartbeat(self, job_id: str) -> None:
        self._touched.append(job_id)

    def step_of(self, job: Job) -> StepRun:
        return self.steps[step_id(job.stage, job.step_key)]

    def steps_in(self, stage: str) -> Iterable[StepRun]:
        """Return the open and closed steps of a stage. Their jobs have been created."""
        return [step for step in self.steps.values() if step.stage == stage]

    def record_job(self, event: Event, job: Job, **details: Json) -> None:
        named: dict[str, Json] = {"jobId": job.id, "stageSlug": job.stage, "stepKey": job.step_key}
        self.record(event, **named, attempt=job.attempt, **details)

    def record(self, event: Event, **details: Json) -> None:
        """Write the changes since the last audit entry into one or more new entries."""
        changes = self._changes
        starts = range(0, len(changes), MAX_CHANGES_PER_ENTRY)
        if len(starts) <= 1:
            super().record(event, **details)
            return
        for part, start in enumerate(starts, 1):
            self._changes = changes[start : start + MAX_CHANGES_PER_ENTRY]
            super().record(event, **details, part=part, parts=len(starts))

    def decide(self, reply: ReplyT, *, refusal: Refused | None = None) -> RunDecision[ReplyT]:
        entries, seq = self.entries(), self._run.seq + len(self._entries)
        return RunDecision(
            reply,
            self._run._replace(seq=seq, stages=self.stages, steps=self.steps),
            entries,
            self._jobs,
            tuple(self._documents),
            self._texts,
            tuple(self._touched),
            refusal,
        )
