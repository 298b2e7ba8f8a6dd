"""A run being changed: applies each change to the run in hand and remembers it for the audit.

The rules in this folder take a frozen run, change a draft of it, and hand back a decision.
Nothing can change the run without leaving its trace.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from waybook.dag.lineage import ProducedDocument
from waybook.errors import Refused
from waybook.record.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json
from waybook.record.moment import DecisionContext, Json
from waybook.record.texts import text_hash
from waybook.record.usage import NO_USAGE, Usage
from waybook.run.decision import RunDecision
from waybook.run.model import CompiledDag, Job, NewDocument, Run, StageRun, StepRun, step_id

ReplyT = TypeVar("ReplyT")

#: What fields are called in their rows, where that is another name.
COLUMN_NAMES = {"continues": "continues_id", "document": "document_id"}


class RunDraft:
    def __init__(self, run: Run, compiled_dag: CompiledDag, context: DecisionContext) -> None:
        """Begin with the run as it is."""
        self.chart = compiled_dag
        self.moment = context
        self.stages = dict(run.stages)
        self.steps = dict(run.steps)
        self._run = run
        self._jobs: dict[str, Job] = {}
        self._documents: list[NewDocument] = []
        self._texts: dict[str, tuple[str, ...]] = {}
        self._touched: list[str] = []
        self._changes: list[Change] = []
        self._entries: list[Entry] = []

    # Making

    def add_run(self, **row: Json) -> None:
        """Make the run itself."""
        self._note(Entity.RUN, self._run.id, WHOLE_ROW, None, row)

    def add_stage(self, stage: StageRun) -> None:
        self.stages[stage.slug] = stage
        self._note(Entity.STAGE_RUN, stage.slug, WHOLE_ROW, None, stage.as_row())

    def add_step(self, step: StepRun) -> None:
        self.steps[step.id] = step
        self._note(Entity.STAGE_STEP, step.id, WHOLE_ROW, None, step.as_row())

    def add_job(self, job: Job) -> None:
        self._jobs[job.id] = job
        self._note(Entity.JOB, job.id, WHOLE_ROW, None, job.as_row())

    def add_document(
        self, job: Job, document_key: str, made: ProducedDocument, content: str, version: int = 1
    ) -> NewDocument:
        """Keep what a job made."""
        document = NewDocument(
            id=self.moment.new_id(),
            stage=job.stage,
            step_key=job.step_key,
            job_id=job.id,
            document_key=document_key,
            origin=made,
            version=version,
            content=content,
            content_hash=text_hash(content),
        )
        self._documents.append(document)
        self._note(Entity.DOCUMENT, document.id, WHOLE_ROW, None, document.as_row())
        return document

    def store_text(self, entity: Entity, row_id: str, *texts: str, **row: Json) -> None:
        """Make a row with texts of its own, which the audit knows by their hash."""
        self._texts[row_id] = texts
        self._note(entity, row_id, WHOLE_ROW, None, {**row, "content_hash": text_hash(*texts)})

    def add_usage(self, usage: Usage, **row: Json) -> None:
        """Keep what a result took, and add it to what the run took so far."""
        self._note(Entity.USAGE, self.moment.new_id(), WHOLE_ROW, None, row)
        old, new = self._run.usage, self._run.usage.plus(usage)
        before = None if old == NO_USAGE else old.as_json()
        self._note(Entity.RUN, self._run.id, "usage", before, new.as_json())
        self._run = replace(self._run, usage=new)

    # Setting

    def set_run(self, **values: object) -> None:
        for name, value in values.items():
            self._changed(Entity.RUN, self._run.id, name, getattr(self._run, name), value)
        self._run = replace(self._run, **values)  # type: ignore[arg-type]  # names are Run's own

    def set_stage(self, slug: str, **values: object) -> None:
        stage = self.stages[slug]
        for name, value in values.items():
            self._changed(Entity.STAGE_RUN, slug, name, getattr(stage, name), value)
        self.stages[slug] = replace(stage, **values)  # type: ignore[arg-type]  # names are StageRun's own

    def set_step(self, step: StepRun, **values: object) -> StepRun:
        for name, value in values.items():
            self._changed(Entity.STAGE_STEP, step.id, name, getattr(step, name), value)
        self.steps[step.id] = changed = replace(step, **values)  # type: ignore[arg-type]  # names are StepRun's own
        return changed

    def set_job(self, job: Job, **values: object) -> Job:
        for name, value in values.items():
            self._changed(Entity.JOB, job.id, name, getattr(job, name), value)
        self._jobs[job.id] = changed = replace(job, **values)  # type: ignore[arg-type]  # names are Job's own
        return changed

    def record_heartbeat(self, job_id: str) -> None:
        """Take this call as a sign of life of the job."""
        self._touched.append(job_id)

    # Looking

    def step_of(self, job: Job) -> StepRun:
        """The step a job belongs to, as it stands now."""
        return self.steps[step_id(job.stage, job.step_key)]

    def steps_in(self, stage: str) -> Iterable[StepRun]:
        """The steps of a stage that have been reached."""
        return [step for step in self.steps.values() if step.stage == stage]

    # Recording

    def record(self, event: Event, **details: Json) -> None:
        """Close the changes so far into one audit entry."""
        self._entries.append(Entry(event, details, tuple(self._changes)))
        self._changes = []

    def decide(self, reply: ReplyT, *, refusal: Refused | None = None) -> RunDecision[ReplyT]:
        """Hand back what was decided. Every change has been recorded by then."""
        if self._changes:
            unrecorded = [f"{change.entity}.{change.field}" for change in self._changes]
            raise AssertionError(f"changes without an audit entry: {unrecorded}")
        seq = self._run.seq + len(self._entries)
        return RunDecision(
            reply,
            replace(self._run, seq=seq, stages=self.stages, steps=self.steps),
            tuple(self._entries),
            self._jobs,
            tuple(self._documents),
            self._texts,
            tuple(self._touched),
            refusal,
        )

    def _changed(self, entity: Entity, row_id: str, name: str, old: object, new: object) -> None:
        if old != new:
            self._note(entity, row_id, COLUMN_NAMES.get(name, name), as_json(old), as_json(new))

    def _note(self, entity: Entity, row_id: str, field: str, old: Json, new: Json) -> None:
        self._changes.append(Change(entity, row_id, field, old, new))
