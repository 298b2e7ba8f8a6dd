"""Caches runs in memory, with their held jobs and the next jobs that can be claimed.

A call uses the cached run, and its write fails if another process has changed the run since.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import NamedTuple, TypeAlias

from waybook.dag.model import JobStatus
from waybook.run.model import Job, Run, RunDecision
from waybook.store.audit import ChainHead
from waybook.store.driver import queries
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement
from waybook.store.runs import jobs, load
from waybook.store.runs.inputs import DocumentCache
from waybook.store.runs.jobs import JobRequest
from waybook.store.runs.load import LOAD_STATEMENT_COUNT, RunBriefRow

JobFilter: TypeAlias = tuple[str | None, str | None]

#: Maximum number of held jobs in a cached run.
MAX_HELD_JOBS = 256
#: Maximum number of steps in a cached run.
MAX_STEPS = 1_000
FREE_JOB_COUNT = 32
MAX_FREE_JOB_COUNT = 128
#: Maximum age of the list of free jobs. After this time, delays and leases may have ended, so that
#: more jobs are free.
MAX_FREE_JOBS_AGE = timedelta(seconds=5)
MAX_INPUT_LENGTH = 65_536

SQL = queries.load("runs/cache", held_jobs=Job, free_jobs=Job, free_jobs_for_model=Job)

_WAITS_FOR_CLAIM = frozenset({JobStatus.PENDING, JobStatus.RETRYING, JobStatus.WAITING})


class FreeJobs(NamedTuple):
    """The first jobs that match a filter and can be claimed, in the order of claiming."""

    jobs: tuple[Job, ...]
    is_complete: bool
    read_at: datetime


class CachedRun(NamedTuple):
    """A run as of one audit entry, with the jobs that agents hold and jobs that can be claimed."""

    run: Run
    dag_slug: str
    dag_version: int
    head: ChainHead
    brief: RunBriefRow
    held: Mapping[str, Job]
    free: Mapping[JobFilter, FreeJobs]
    documents: DocumentCache

    def holds_job(self, wanted: JobRequest, *, besides: str | None = None) -> bool:
        if wanted.holder is None or wanted.holder.session is None:
            return False
        return any(
            job.holder == wanted.holder
            and job.id != besides
            and wanted.model in {None, job.model}
            and wanted.job_type in {None, job.job_type}
            for job in self.held.values()
        )

    def jobs_after(self, job: Job, most: int) -> Sequence[Job]:
        for free in self.free.values():
            if job in free.jobs:
                place = free.jobs.index(job) + 1
                return free.jobs[place : place + most]
        return ()

    def is_free(self, job: Job, wanted: JobRequest) -> bool:
        free = self.free.get(filter_of(wanted))
        return free is not None and job in free.jobs

    def advance(self, decision: RunDecision[object], head: ChainHead) -> "CachedRun | None":
        """Return the run with the changes of `decision`, or None if it ended or is too large."""
        run, held, free, others = decision.run, {**self.held}, self.free, set[str]()
        for job in decision.jobs.values():
            if job.unit is None:
                continue
            if held.pop(job.id, None) is None:
                others.add(job.id)
            if job.status is JobStatus.PROCESSING:
                held[job.id] = job
            elif job.status in _WAITS_FOR_CLAIM:
                free = {}
        if not _can_be_cached(run, len(held)):
            return None
        self.documents.discard(decision.documents)
        for key, listed in free.items() if others else ():
            left = tuple([job for job in listed.jobs if job.id not in others])
            if len(left) < len(listed.jobs):
                free = {**free, key: listed._replace(jobs=left)}
        return self._replace(run=run, head=head, held=held, free=free)


def _can_be_cached(run: Run, held_count: int) -> bool:
    is_open = run.completed_at is None and run.canceled_at is None
    return is_open and len(run.steps) <= MAX_STEPS and held_count <= MAX_HELD_JOBS


def filter_of(wanted: JobRequest) -> JobFilter:
    return wanted.model, wanted.job_type


def free_jobs_statement(run_id: str, request: JobRequest, most: int) -> Statement:
    query = SQL["free_jobs"] if request.model is None else SQL["free_jobs_for_model"]
    return query(run_id=run_id, most=most, **request.values)


def load_statements(run_id: str, wanted: JobRequest, most: int) -> list[Statement]:
    return [
        *load.load_statements(run_id),
        load.SQL["run_brief"](run_id=run_id),
        SQL["held_jobs"](run_id=run_id, most=MAX_HELD_JOBS + 1),
        free_jobs_statement(run_id, wanted, most),
    ]


def read_cached(results: Results, wanted: JobRequest, most: int) -> CachedRun | None:
    loaded = load.read_run(results)
    brief, held, free = results[LOAD_STATEMENT_COUNT:]
    if loaded is None or not _can_be_cached(loaded.run, len(held)):
        return None
    run, row = loaded.run, brief[0]
    if isinstance(row.input, str) and len(row.input) > MAX_INPUT_LENGTH:
        return None
    # Jobs in progress come last in the list. Leave them out, because they can be claimed only after
    # their leases.
    claimable = map(jobs.read_job, free)
    unclaimed = tuple(takewhile(lambda job: job.status in _WAITS_FOR_CLAIM, claimable))
    free_jobs = FreeJobs(unclaimed, len(unclaimed) < most, loaded.now)
    return CachedRun(
        run=run,
        dag_slug=loaded.dag_slug,
        dag_version=loaded.dag_version,
        head=loaded.head,
        brief=row,
        held={job.id: job for job in map(jobs.read_job, held)},
        free={filter_of(wanted): free_jobs},
        documents=DocumentCache(),
    )
