"""Defines the draft of a run, which applies changes to the run and records them for the audit.

Every rule changes a run only through a draft, so that no change is missing from the audit.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json, text_hash
from waybook.core.decision_context import DecisionContext
from waybook.core.usage import NO_USAGE, Usage
from waybook.dag.expansion.units import ProducedDocument
from waybook.errors import Refused
from waybook.json_values import Json
from waybook.run.model import CompiledDag, Job, NewDocument, Run, StageRun, StepRun, step_id

_NO_JOBS: Mapping[str, Job] = MappingProxyType({})
NO_TEXTS: Mapping[str, tuple[str, ...]] = MappingProxyType({})

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class RunDecision(NamedTuple, Generic[ReplyT_co]):
    """Result of a rule: the reply to send, and the changes that are still to be written."""

    reply: ReplyT_co
    run: Run
    entries: tuple[Entry, ...] = ()
    jobs: Mapping[str, Job] = _NO_JOBS
    documents: tuple[NewDocument, ...] = ()
    #: Long texts by row id. The audit stores only their hashes.
    texts: Mapping[str, tuple[str, ...]] = NO_TEXTS
    touched: tuple[str, ...] = ()
    #: Error to raise after the changes are written. For example, a late result is stored and then
    #: refused.
    refusal: Refused | None = None


ReplyT = TypeVar("ReplyT")

#: Maximum number of row changes in one audit entry. If a call makes more, it writes several
#: entries.
MAX_CHANGES_PER_ENTRY = 500

_COLUMN_NAMES = {"continues": "continues_id", "document": "document_id"}


class RunDraft:
    def __init__(self, run: Run, compiled_dag: CompiledDag, context: DecisionContext) -> None:
        self.compiled_dag = compiled_dag
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

    @property
    def run(self) -> Run:
        return self._run

    def add_run(self, **row: Json) -> None:
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
        document = NewDocument(
            id=self.moment.new_uuid(),
            stage=job.stage,
            step_key=job.step_key,
            job_id=job.id,
            document_key=document_key,
            origin=made,
            version=version,
            content=content,
            content_hash=text_hash(content),
        )
        self.insert_document(document)
        return document

    def insert_document(self, document: NewDocument) -> None:
        self._documents.append(document)
        self._note(Entity.DOCUMENT, document.id, WHOLE_ROW, None, document.as_row())

    def store_text(self, entity: Entity, row_id: str, *texts: str, **row: Json) -> None:
        """Record the creation of a row with long texts. The audit stores only their hashes."""
        self._texts[row_id] = texts
        self._note(entity, row_id, WHOLE_ROW, None, {**row, "content_hash": text_hash(*texts)})

    def add_usage(self, usage: Usage, **row: Json) -> None:
        self._note(Entity.USAGE, self.moment.new_uuid(), WHOLE_ROW, None, row)
        old, new = self._run.usage, self._run.usage.plus(usage)
        before = None if old == NO_USAGE else old._asdict()
        self._note(Entity.RUN, self._run.id, "usage", before, new._asdict())
        self._run = self._run._replace(usage=new)

    def set_run(self, **values: object) -> None:
        self._note_changes(Entity.RUN, self._run.id, self._run, values)
        self._run = self._run._replace(**values)  # type: ignore[arg-type]  # names are Run's own

    def set_stage(self, slug: str, **values: object) -> None:
        stage = self.stages[slug]
        self._note_changes(Entity.STAGE_RUN, slug, stage, values)
        self.stages[slug] = stage._replace(**values)  # type: ignore[arg-type]  # names are StageRun's own

    def set_step(self, step: StepRun, **values: object) -> StepRun:
        row_id = step.id
        self._note_changes(Entity.STAGE_STEP, row_id, step, values)
        self.steps[row_id] = changed = step._replace(**values)  # type: ignore[arg-type]  # names are StepRun's own
        return changed

    def set_job(self, job: Job, **values: object) -> Job:
        self._note_changes(Entity.JOB, job.id, job, values)
        self._jobs[job.id] = changed = job._replace(**values)  # type: ignore[arg-type]  # names are Job's own
        return changed

    def record_heartbeat(self, job_id: str) -> None:
        self._touched.append(job_id)

    def step_of(self, job: Job) -> StepRun:
        return self.steps[step_id(job.stage, job.step_key)]

    def steps_in(self, stage: str) -> Iterable[StepRun]:
        """Return the open and closed steps of a stage. Their jobs have been created."""
        return [step for step in self.steps.values() if step.stage == stage]

    def record(self, event: Event, **details: Json) -> None:
        """Write the changes since the last audit entry into one or more new entries."""
        changes, self._changes = self._changes, []
        if len(changes) <= MAX_CHANGES_PER_ENTRY:
            self._entries.append(Entry(event, details, tuple(changes)))
            return
        starts = range(0, len(changes), MAX_CHANGES_PER_ENTRY)
        for part, start in enumerate(starts, 1):
            numbered = {**details, "part": part, "parts": len(starts)}
            some = tuple(changes[start : start + MAX_CHANGES_PER_ENTRY])
            self._entries.append(Entry(event, numbered, some))

    def decide(self, reply: ReplyT, *, refusal: Refused | None = None) -> RunDecision[ReplyT]:
        if self._changes:
            unrecorded = [f"{change.entity}.{change.field}" for change in self._changes]
            raise AssertionError(f"changes without an audit entry: {unrecorded}")
        seq = self._run.seq + len(self._entries)
        return RunDecision(
            reply,
            self._run._replace(seq=seq, stages=self.stages, steps=self.steps),
            tuple(self._entries),
            self._jobs,
            tuple(self._documents),
            self._texts,
            tuple(self._touched),
            refusal,
        )

    def _note_changes(
        self, entity: Entity, row_id: str, row: object, values: Mapping[str, object]
    ) -> None:
        for name, new in values.items():
            old = getattr(row, name)
            if old != new:
                column = _COLUMN_NAMES.get(name, name)
                self._changes.append(Change(entity, row_id, column, as_json(old), as_json(new)))

    def _note(self, entity: Entity, row_id: str, field: str, old: Json, new: Json) -> None:
        self._changes.append(Change(entity, row_id, field, old, new))


def record_usage(draft: RunDraft, job: Job, attempt: int, usage: Usage | None) -> None:
    """Store the usage of an attempt, even if the result is late and refused."""
    if usage is None:
        return
    draft.add_usage(
        usage,
        job_id=job.id,
        attempt=attempt,
        **{**usage._asdict(), "model": usage.model or job.model},
        at=as_json(draft.moment.now),
        by=draft.moment.actor.user,
        session=draft.moment.actor.session,
    )
