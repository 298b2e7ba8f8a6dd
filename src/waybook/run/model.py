"""Data model of a run with its size limits, and the draft of a change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from waybook.core.changes import PLAIN, BaseDraft, Entity, Entry, Event, as_json
from waybook.core.decision_context import DecisionContext, Holder
from waybook.core.usage import NO_USAGE, Totals, Usage
from waybook.dag.expansion.inputs import ProducedDocuments, produced_documents, rendered_keys
from waybook.dag.expansion.units import (
    ItemList,
    ItemLists,
    Origins,
    ProducedDocument,
    Unit,
    item_lists,
)
from waybook.dag.graph import Graph
from waybook.dag.model import Dag, JobStatus, JobType, Stage
from waybook.dag.progress.structure import stage_order
from waybook.errors import NextCall, Refused
from waybook.json_values import Json

#: The rank of step n of stage s is s * _RANKS + n. Jobs of steps with lower ranks are assigned
#: first.
_RANKS = 100_000


@dataclass(frozen=True)
class CompiledDag:
    dag: Dag
    graphs: Mapping[str, Graph]
    version: int = 1

    @cached_property
    def order(self) -> tuple[str, ...]:
        return tuple(stage_order(self.dag))

    @cached_property
    def produced_documents(self) -> ProducedDocuments:
        return produced_documents(self.dag)

    @cached_property
    def item_lists(self) -> ItemLists:
        return item_lists(self.dag)

    @cached_property
    def produced_lists(self) -> Mapping[tuple[str, str], ItemList]:
        """Return the lists that steps produce, by stage and document key."""
        lists = self.item_lists.values()
        return {(each.stage, each.document_key): each for each in lists if each.stage}

    @cached_property
    def dispatch_ranks(self) -> Mapping[tuple[str, str], int]:
        return {
            (slug, key): place * _RANKS + number
            for place, slug in enumerate(self.order)
            for number, key in enumerate(self.graphs[slug].order)
        }

    @cached_property
    def rendered_keys(self) -> Mapping[tuple[str, str], frozenset[str]]:
        return {
            (stage.slug, key): keys
            for stage in self.dag.stages
            for key, keys in rendered_keys(stage).items()
        }

    @cached_property
    def stages(self) -> Mapping[str, Stage]:
        return {stage.slug: stage for stage in self.dag.stages}

    def stage_name(self, slug: str) -> str:
        return self.stages[slug].name or slug

    @cached_property
    def continued_stages(self) -> frozenset[str]:
        return frozenset(stage.slug for stage in self.dag.stages if self.dag.after(stage.slug))

    @cached_property
    def steps_total(self) -> int:
        return sum(len(graph.order) for graph in self.graphs.values())


#: Columns whose names differ from the names of the fields.
COLUMN_NAMES = {"stage": "stage_slug", "continues": "continues_id", "document": "document_id"}


@cache
def _columns(fields: tuple[str, ...], left_out: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (place, COLUMN_NAMES.get(name, name))
        for place, name in enumerate(fields)
        if name not in left_out
    )


def _row(record: NamedTuple, *left_out: str) -> dict[str, Json]:
    # Most values are plain. This runs several times per job, and a call of `as_json` takes time.
    return {
        column: value if type(value := record[place]) in PLAIN else as_json(value)
        for place, column in _columns(record._fields, left_out)
    }


class StageRun(NamedTuple):
    """A started stage of a run. Its models can no longer change."""

    slug: str
    models: tuple[str, ...]
    #: Lineages and authors of the documents of earlier stages. They can no longer change.
    prior: Origins
    started_at: datetime
    completed_at: datetime | None = None
    feedback: str | None = None
    feedback_at: datetime | None = None
    feedback_by: str | None = None

    def as_row(self) -> dict[str, Json]:
        return {**_row(self, "slug", "prior"), "prior": origins_json(self.prior)}


def step_id(stage: str, key: str) -> str:
    """Return a step's id within its run. Slashes in slugs are escaped to keep the id unique.

    >>> step_id("thesis", "case"), step_id("a/b", "c"), step_id("a", "b/c")
    ('thesis/case', 'a~1b/c', 'a/b/c')
    """
    return f"{stage.replace('~', '~0').replace('/', '~1')}/{key}"


class StepRun(NamedTuple):
    """A step whose jobs were created, with the number of all, completed and failed jobs."""

    stage: str
    key: str
    total: int
    opened_at: datetime
    done: int = 0
    failed: int = 0
    closed_at: datetime | None = None

    @property
    def id(self) -> str:
        return step_id(self.stage, self.key)

    @property
    def is_open(self) -> bool:
        """Return whether the step has jobs that are not finished."""
        return self.closed_at is None and self.total > self.done + self.failed

    def as_row(self) -> dict[str, Json]:
        return _row(self, "stage", "key")


class Job(NamedTuple):
    id: str
    stage: str
    step_key: str
    job_type: JobType
    model: str
    rank: int
    #: The part of the step's work that the job does. None if the job renders a document.
    unit: Unit | None
    ready_at: datetime
    status: JobStatus = JobStatus.PENDING
    #: Number of the current attempt, which every claim increases. Results of earlier attempts are
    #: refused.
    attempt: int = 0
    tries: int = 0
    held_by: str | None = None
    held_session: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: str | None = None
    #: Id of a job whose result was too long for one call. This job continues that result with part
    #: number `part`.
    continues: str | None = None
    part: int = 1
    document: str | None = None
    #: Whether the step stays open until this job is completed.
    counted: bool = True

    @property
    def holder(self) -> Holder | None:
        if self.held_by is None or self.status is not JobStatus.PROCESSING:
            return None
        return Holder(self.held_by, self.held_session)

    def as_row(self) -> dict[str, Json]:
        return {**_row(self, "id", "unit"), "unit": unit_json(self.unit) if self.unit else None}


class RunList(NamedTuple):
    """A list by which a step is split into one job per item.

    After the jobs of a step were created from the list, the list does not change.
    """

    name: str
    length: int
    #: Document with the items. None if they are in the run's input.
    document: str | None = None
    #: Length and document of a newer version of the list, written after a step had used this one.
    newer: tuple[int, str] | None = None


class Run(NamedTuple):
    """A run as loaded for a call, with only the parts that the call needs."""

    id: str
    name: str
    seq: int
    completed_at: datetime | None
    stages: Mapping[str, StageRun]
    steps: Mapping[str, StepRun]
    usage: Totals = NO_USAGE
    canceled_at: datetime | None = None
    canceled_by: str | None = None
    cancel_reason: str | None = None
    #: Set only for a copy: the original run, and the number of the audit entry up to which it was
    #: copied.
    copied_from: str | None = None
    copied_seq: int | None = None
    lists: tuple[RunList, ...] = ()

    @property
    def lengths(self) -> Mapping[str, int]:
        return {known.name: known.length for known in self.lists}

    @property
    def failed_steps(self) -> list[StepRun]:
        """Return the steps with jobs that failed permanently and were not retried since."""
        return [step for step in self.steps.values() if step.failed and step.closed_at is None]


class NewDocument(NamedTuple):
    """A document that a job produced. The audit stores only the hash of its text."""

    id: str
    stage: str
    step_key: str
    job_id: str
    document_key: str
    origin: ProducedDocument
    version: int
    #: Text of the document. Empty for a copied document, whose text the database copies.
    content: str
    content_hash: str
    copied_from: str | None = None

    def as_row(self) -> dict[str, Json]:
        absent = () if self.copied_from else ("copied_from",)
        return {**_row(self, "id", "origin", "content", *absent), **self.origin._asdict()}


def origins_json(origins: Origins) -> Json:
    return {
        "firstAuthor": [[lineage, author] for lineage, author in origins.first_author.items()],
        "authors": [*origins.authors],
    }


def unit_json(unit: Unit) -> Json:
    return {
        "number": unit.number,
        "lineage": unit.lineage,
        "reviewer": unit.reviewer,
        "source": unit.source and [*unit.source],
        "makes": [[*made] for made in unit.makes],
        **({} if unit.item is None else {"item": unit.item}),
    }


MAX_JOBS = 20_000
MAX_MODELS = 20
MAX_STEPS = 500
#: Number of attempts after which a job fails permanently.
MAX_ATTEMPTS = 4
MAX_PARTS = 50
BACKOFF_SECONDS = 5
MAX_BACKOFF_SECONDS = 300


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
