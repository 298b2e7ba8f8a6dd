"""In-memory cache of runs, with the jobs that are held and the next free jobs.

Most workers of a run reach the same process. There, a call makes its decision on the cached run,
and then sends one message that updates the run if it is unchanged, writes, and commits. Every claim
and every result changes the audit sequence number of the run, so that an unchanged number also
proves that the cached jobs are unchanged. Calls on one run take turns in this process, in the order
of their arrival; a change by another process makes the update fail. See `update_unchanged_run` in
`runs/writer.sql`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TypeAlias
from uuid import UUID

from waybook.dag.model import JobStatus
from waybook.errors import Busy
from waybook.run.draft import RunDecision
from waybook.run.model import Job, Run
from waybook.store.audit import ChainHead
from waybook.store.driver import queries
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import Statement
from waybook.store.runs import jobs, load
from waybook.store.runs.inputs import DocumentCache
from waybook.store.runs.jobs import JobRequest
from waybook.store.runs.load import LOAD_STATEMENT_COUNT
from waybook.store.runs.rows import JobRow, RunBriefRow

RunKey: TypeAlias = tuple[UUID, str]
#: Model and type of the jobs that a call asks for; None stands for any.
JobFilter: TypeAlias = tuple[str | None, str | None]

MAX_RUNS = 256
#: Maximum number of jobs in progress of a cached run. They are listed completely, so that the cache
#: knows whether a caller holds a job.
MAX_HELD_JOBS = 256
#: Maximum number of opened steps of a cached run, which limits the memory of the cache.
MAX_STEPS = 1_000
#: Number of free jobs that are read together.
FREE_JOB_COUNT = 32
#: Maximum age of the free jobs. Later, jobs that come first may have become claimable by time
#: alone, because a delay or a lease has ended.
MAX_FREE_JOBS_AGE = timedelta(seconds=5)
MAX_INPUT_LENGTH = 65_536
MAX_FILTERS = 64
#: Maximum time for which a call waits for its turn; the same as for a lock in the database.
TURN_TIMEOUT_SECONDS = 5.0
#: Number of calls that lock the run in the database after another process has changed it; after
#: these calls, the cache is used again.
LOCKS_AFTER_CONFLICT = 8

SQL = queries.load("runs/cache", held_jobs=JobRow, free_jobs=JobRow, free_jobs_for_model=JobRow)

_WAITS_FOR_CLAIM = frozenset({JobStatus.PENDING, JobStatus.RETRYING, JobStatus.WAITING})


@dataclass(frozen=True, slots=True)
class FreeJobs:
    """First free jobs that match a filter, in the order in which they are claimed."""

    jobs: tuple[Job, ...]
    #: True if reading more free jobs at once would find none that can be claimed from the cache.
    is_complete: bool
    #: Database time at which the jobs were read.
    read_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRun:
    """Run at one position of its audit chain, with its jobs in progress and free jobs."""

    run: Run
    dag_slug: str
    dag_version: int
    head: ChainHead
    brief: RunBriefRow
    held: Mapping[str, Job]
    free: Mapping[JobFilter, FreeJobs]
    #: Documents that jobs of the run have as inputs. Later states of the run share this object.
    documents: DocumentCache = field(default_factory=DocumentCache)

    def holds_job(self, wanted: JobRequest, *, besides: str | None = None) -> bool:
        """Return whether the caller holds a requested job, other than the job `besides`."""
        if wanted.holder is None or wanted.holder.session is None:
            return False
        return any(
            job.holder == wanted.holder and job.id != besides and _matches(job, wanted)
            for job in self.held.values()
        )

    def jobs_after(self, job: Job, most: int) -> Sequence[Job]:
        """Return free jobs that are claimed soon after this free job."""
        for free in self.free.values():
            if job in free.jobs:
                place = free.jobs.index(job) + 1
                return free.jobs[place : place + most]
        return ()

    def is_free(self, job: Job, wanted: JobRequest) -> bool:
        """Return whether a job that was free earlier is still free."""
        free = self.free.get(_filter_of(wanted))
        return free is not None and job in free.jobs

    def advance(self, decision: RunDecision[object], head: ChainHead) -> "CachedRun | None":
        """Return the run after a decision; None if it has ended or has become too large."""
        run = decision.run
        changed = {job.id: job for job in decision.jobs.values() if job.unit is not None}
        held = {job_id: job for job_id, job in self.held.items() if job_id not in changed}
        held |= {job.id: job for job in changed.values() if job.status is JobStatus.PROCESSING}
        if not _can_be_cached(run, len(held)):
            return None
        self.documents.discard(decision.documents)
        is_same_order = not any(job.status in _WAITS_FOR_CLAIM for job in changed.values())
        free = {key: _without(jobs, changed) for key, jobs in self.free.items()}
        return replace(self, run=run, head=head, held=held, free=free if is_same_order else {})


def _can_be_cached(run: Run, held_count: int) -> bool:
    """Return whether a run is open and small enough for the cache."""
    is_open = run.completed_at is None and run.canceled_at is None
    return is_open and len(run.steps) <= MAX_STEPS and held_count <= MAX_HELD_JOBS


def _matches(job: Job, wanted: JobRequest) -> bool:
    return wanted.model in {None, job.model} and wanted.job_type in {None, job.job_type}


def _without(free: FreeJobs, changed: Mapping[str, Job]) -> FreeJobs:
    if not any(job.id in changed for job in free.jobs):
        return free
    return replace(free, jobs=tuple([job for job in free.jobs if job.id not in changed]))


def _filter_of(wanted: JobRequest) -> JobFilter:
    return wanted.model, wanted.job_type


def held_jobs_statement(run_id: str, most: int) -> Statement:
    """Select the jobs of a run that are in progress."""
    return SQL["held_jobs"](run_id=run_id, most=most)


def free_jobs_statement(run_id: str, request: JobRequest, most: int) -> Statement:
    """Select the next claimable jobs of a run, without locking them."""
    job_type, lease = request.job_type, request.lease_seconds
    if request.model is None:
        return SQL["free_jobs"](run_id=run_id, job_type=job_type, lease=lease, most=most)
    return SQL["free_jobs_for_model"](
        run_id=run_id, model=request.model, job_type=job_type, lease=lease, most=most
    )


def load_statements(run_id: str, wanted: JobRequest) -> list[Statement]:
    """Select a run with its jobs in progress and its first free jobs, without locks."""
    return [
        *load.snapshot_statements(run_id),
        load.brief_statement(run_id),
        held_jobs_statement(run_id, MAX_HELD_JOBS + 1),
        free_jobs_statement(run_id, wanted, FREE_JOB_COUNT),
    ]


def read_cached(results: Results, wanted: JobRequest) -> CachedRun | None:
    """Convert the selected rows to a run for the cache; None if the run is not to be cached."""
    loaded = load.read_run(results)
    brief, held, free = results[LOAD_STATEMENT_COUNT:]
    if loaded is None or not _can_be_cached(loaded.run, len(held)):
        return None
    run, row = loaded.run, brief[0]
    if isinstance(row.input, str) and len(row.input) > MAX_INPUT_LENGTH:
        return None
    claimable = [jobs.read_job(job) for job in free]
    return CachedRun(
        run=run,
        dag_slug=loaded.dag_slug,
        dag_version=loaded.dag_version,
        head=loaded.head,
        brief=row,
        held={job.id: job for job in map(jobs.read_job, held)},
        free={_filter_of(wanted): _free_jobs(claimable, loaded.now)},
    )


def _free_jobs(claimable: Sequence[Job], now: datetime) -> FreeJobs:
    """Return the jobs before the first one in progress, whose lease a heartbeat may renew."""
    unclaimed = tuple(takewhile(lambda job: job.status in _WAITS_FOR_CLAIM, claimable))
    return FreeJobs(unclaimed, len(unclaimed) < FREE_JOB_COUNT, now)


class RunSlot:
    """Place of one run in the cache, with the lock by which calls take turns."""

    def __init__(self) -> None:
        """Create a slot without a cached run."""
        self.cached: CachedRun | None = None
        self._lock = asyncio.Lock()
        self._reserved: set[str] = set()
        self._locks_left = 0

    @property
    def is_in_use(self) -> bool:
        return self._lock.locked() or bool(self._reserved)

    # Turns

    async def take_turn(self, seconds: float = TURN_TIMEOUT_SECONDS) -> None:
        """Wait until the calls before this one have ended their turns.

        Raises:
            Busy: the turn did not come in time.
        """
        try:
            async with asyncio.timeout(seconds if self._lock.locked() else None):
                await self._lock.acquire()
        except TimeoutError as error:
            raise Busy from error

    def end_turn(self) -> None:
        self._lock.release()

    # Cached run

    def may_use_cache(self) -> bool:
        """Return whether the next call may decide on the cached run; count the call."""
        if self._locks_left:
            self._locks_left -= 1
            return False
        return True

    def mark_contended(self) -> None:
        """Forget the run, which another process changed, and lock it during the next calls."""
        self.cached = None
        self._locks_left = LOCKS_AFTER_CONFLICT

    def put(self, loaded: CachedRun | None) -> None:
        """Cache a run that was just read; keep the free jobs of other filters if still valid."""
        before = self.cached
        if loaded and before and before.head[:2] == loaded.head[:2]:
            kept = before.free if len(before.free) < MAX_FILTERS else {}
            free = {**kept, **loaded.free}
            loaded = replace(loaded, free=free, documents=before.documents)
        self.cached = loaded

    def advance(self, before: ChainHead, decision: RunDecision[object], head: ChainHead) -> None:
        """Apply a committed decision to the cached run, or forget a run that is older."""
        if self.cached is not None and self.cached.head.seq < head.seq:
            is_next = self.cached.head[:2] == before[:2]
            self.cached = self.cached.advance(decision, head) if is_next else None

    # Free jobs

    def needs_load(self, wanted: JobRequest, now: datetime | None) -> bool:
        """Return whether the database may have free jobs that the cache does not know."""
        free = self.cached.free.get(_filter_of(wanted)) if self.cached else None
        if free is None or now is None or now - free.read_at > MAX_FREE_JOBS_AGE:
            return True
        return not free.is_complete and all(job.id in self._reserved for job in free.jobs)

    def reserve(self, wanted: JobRequest, *, besides: str | None = None) -> Job | None:
        """Reserve the first free job for a call; None if the cache has no job for the caller."""
        cached = self.cached
        if cached is None or cached.holds_job(wanted, besides=besides):
            return None
        free = cached.free.get(_filter_of(wanted))
        for job in free.jobs if free else ():
            if job.id not in self._reserved:
                self._reserved.add(job.id)
                return job
        return None

    def release(self, job_ids: Sequence[str]) -> None:
        """End the reservation of these jobs."""
        self._reserved.difference_update(job_ids)


class RunCache:
    def __init__(self, most: int = MAX_RUNS) -> None:
        """Create an empty cache that keeps the `most` runs that were used last."""
        self._slots: OrderedDict[RunKey, RunSlot] = OrderedDict()
        self._most = most

    def slot(self, which: RunKey) -> RunSlot:
        """Return the slot of a run; a new slot may replace the slot of another run."""
        slot = self._slots.get(which)
        if slot is None:
            if len(self._slots) >= self._most:
                self._evict()
            slot = self._slots[which] = RunSlot()
        self._slots.move_to_end(which)
        return slot

    def _evict(self) -> None:
        """Remove a slot that no call uses: one without a cached run, or the one used first."""
        idle = [which for which, slot in self._slots.items() if not slot.is_in_use]
        empty = (which for which in idle if self._slots[which].cached is None)
        which = next(empty, idle[0] if idle else None)
        if which is not None:
            del self._slots[which]
