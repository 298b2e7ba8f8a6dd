"""In-memory store of a run's rows, with the same queries as the database store.

The name of a method is short for the name of the query that it replaces: `held` for `held_job`,
`free` for `free_job`, and so on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from plan_builders import NOON
from waybook.core.changes import WHOLE_ROW, Change, Entity, Row, Rows, as_json, text_hash
from waybook.core.decision_context import Holder
from waybook.core.usage import NO_USAGE
from waybook.dag.model import FAILED_JOB, JobStatus, JobType
from waybook.dag.progress.report import AvailableDocument
from waybook.run.model import CompiledDag, Job, NewDocument, Run, RunDecision, StageRun, StepRun

#: Time without a heartbeat after which another agent can claim a job.
LEASE = timedelta(minutes=15)
#: Statuses of jobs without a holder; some of these jobs cannot be claimed before a certain time.
WAITING = frozenset({JobStatus.PENDING, JobStatus.RETRYING, JobStatus.WAITING})
#: Kinds of rows with texts, of which the audit contains only the hash.
WITH_TEXTS = frozenset({Entity.JOB_PART, Entity.RENDERED_DOCUMENT, Entity.LATE_RESULT})

Stored = StageRun | StepRun | Job | NewDocument
Place = tuple[str, str, str, str, str, str | None]


@dataclass(slots=True, kw_only=True)
class RunRowStore:
    chart: CompiledDag
    run: Run
    now: datetime = NOON
    #: Fields of the run's row that a `Run` object does not contain.
    brief: Row = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    #: Time of the last heartbeat of each job.
    seen: dict[str, datetime] = field(default_factory=dict)
    documents: dict[str, NewDocument] = field(default_factory=dict)
    texts: dict[tuple[Entity, str], tuple[Row, tuple[str, ...]]] = field(default_factory=dict)
    usage: dict[str, Row] = field(default_factory=dict)

    def copied(self) -> "RunRowStore":
        """Return a copy of the rows, so that different calls can be tried on the same rows."""
        return replace(
            self,
            jobs=dict(self.jobs),
            seen=dict(self.seen),
            documents=dict(self.documents),
            texts=dict(self.texts),
            usage=dict(self.usage),
        )

    def write(self, decision: RunDecision[object]) -> None:
        self.run = decision.run
        self.jobs |= decision.jobs
        self.seen |= dict.fromkeys(decision.touched, self.now)
        self.documents |= {document.id: document for document in decision.documents}
        for change in changes_of(decision):
            if (change.entity, change.field) == (Entity.RUN, WHOLE_ROW):
                self.brief = cast("Row", change.new)
            if change.entity is Entity.USAGE and isinstance(change.new, dict):
                self.usage[change.id] = change.new
            if change.entity in WITH_TEXTS and isinstance(change.new, dict):
                self.texts[change.entity, change.id] = (change.new, decision.texts[change.id])

    def held(self, holder: Holder) -> Job | None:
        return _first(job for job in self.open() if holder.is_same_conversation(job.holder))

    def free(self) -> Job | None:
        """Return the first job that can be claimed."""
        return _first(job for job in self.open() if self.is_free(job))

    def is_free(self, job: Job) -> bool:
        if job.status in WAITING:
            return job.ready_at <= self.now
        return job.status is JobStatus.PROCESSING and self.last_seen(job) < self.now - LEASE

    def last_seen(self, job: Job) -> datetime:
        started = job.started_at or NOON
        return max(self.seen.get(job.id, started), started)

    def open(self) -> list[Job]:
        """Return the jobs that have not ended, except RENDER jobs."""
        return [
            job
            for job in self.jobs.values()
            if job.completed_at is None and job.job_type is not JobType.RENDER
        ]

    def failed(self, stage: str, step_key: str | None = None) -> list[Job]:
        jobs = (j for j in self.jobs.values() if j.stage == stage and j.status in FAILED_JOB)
        return sorted((j for j in jobs if step_key in {None, j.step_key}), key=_turn)

    def parts(self, job: Job) -> list[str]:
        """Return the texts of the earlier jobs that this job continues, oldest first."""
        texts: list[str] = []
        while job.continues is not None:
            texts.append(self.texts[Entity.JOB_PART, job.continues][1][0])
            job = self.jobs[job.continues]
        return texts[::-1]

    def to_render(self) -> list[Job]:
        jobs = (job for job in self.jobs.values() if job.completed_at is None)
        return [job for job in jobs if job.job_type is JobType.RENDER]

    def latest(self, document_id: str) -> NewDocument:
        place = row_key(self.documents[document_id])
        versions = [document for document in self.documents.values() if row_key(document) == place]
        return max(versions, key=lambda document: document.version)

    def available(self) -> list[tuple[str, AvailableDocument]]:
        """Return the latest rendered version of each document, with its stage."""
        latest: dict[Place, tuple[str, AvailableDocument]] = {}
        pages = [
            (self.documents[str(row["document_id"])], page_id)
            for (entity, page_id), (row, _) in self.texts.items()
            if entity is Entity.RENDERED_DOCUMENT
        ]
        for document, page_id in sorted(pages, key=lambda page: page[0].version):
            rendered = AvailableDocument(document.document_key, document.origin.model, page_id)
            latest[row_key(document)] = (document.stage, rendered)
        return list(latest.values())

    def rows(self) -> Rows:
        """Return all rows of the run as a replay of the audit returns them."""
        named: dict[Entity, Iterable[str]] = {
            Entity.RUN: [self.run.id],
            Entity.STAGE_RUN: self.run.stages,
            Entity.STAGE_STEP: self.run.steps,
            Entity.JOB: self.jobs,
            Entity.DOCUMENT: self.documents,
            Entity.USAGE: self.usage,
            **{
                entity: [text_id for of, text_id in self.texts if of is entity]
                for entity in WITH_TEXTS
            },
        }
        rows_by_entity = {
            str(entity): {row_id: row for row_id in ids if (row := self.row(entity, row_id))}
            for entity, ids in named.items()
        }
        return {entity: rows for entity, rows in rows_by_entity.items() if rows}

    def row(self, entity: Entity, row_id: str) -> Row | None:
        if entity is Entity.RUN:
            at = self.run.completed_at
            own: Row = {"name": self.run.name, "completed_at": at.isoformat() if at else None}
            took = self.run.usage
            used: Row = {"usage": took._asdict()} if took != NO_USAGE else {}
            lists = {"lists": as_json(self.run.lists)} if self.chart.item_lists else {}
            row = {**self.brief, **own, **used, **lists, **_cancellation(self.run)}
            return row if self.brief else None
        if entity is Entity.USAGE:
            return self.usage.get(row_id)
        if entity in WITH_TEXTS:
            row, texts = self.texts.get((entity, row_id), ({}, ()))
            return {**row, "content_hash": text_hash(*texts)} if row else None
        records_by_entity: Mapping[Entity, Mapping[str, Stored]] = {
            Entity.STAGE_RUN: self.run.stages,
            Entity.STAGE_STEP: self.run.steps,
            Entity.JOB: self.jobs,
            Entity.DOCUMENT: self.documents,
        }
        record = records_by_entity[entity].get(row_id)
        return record.as_row() if record else None


def _cancellation(run: Run) -> Row:
    if run.canceled_at is None:
        return {}
    return {
        "canceled_at": run.canceled_at.isoformat(),
        "canceled_by": run.canceled_by,
        "cancel_reason": run.cancel_reason,
    }


def changes_of(decision: RunDecision[object]) -> list[Change]:
    return [change for entry in decision.entries for change in entry.changes]


def row_key(document: NewDocument) -> Place:
    """Return a key that all versions of a document have in common."""
    made = document.origin
    of = (document.stage, document.step_key, document.document_key)
    return (*of, made.model, made.lineage, made.reviewer)


def _first(jobs: Iterable[Job]) -> Job | None:
    return min(jobs, key=_turn, default=None)


def _turn(job: Job) -> tuple[int, str]:
    return job.rank, job.id
