"""The run cache. It has one slot per run, with the cached run and the queue of its calls."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import TypeAlias

from waybook.run.model import Job, RunDecision
from waybook.store.audit import ChainHead
from waybook.store.runs.cache import (
    FREE_JOB_COUNT,
    MAX_FREE_JOB_COUNT,
    MAX_FREE_JOBS_AGE,
    CachedRun,
    filter_of,
)
from waybook.store.runs.jobs import JobRequest
from waybook.store.runs.pipeline import CommitPipeline, TurnQueue

#: Org and id of a run. The org is an int, because an int is hashed fast.
RunKey: TypeAlias = tuple[int, str]

MAX_RUNS = 256
MAX_FILTERS = 64
#: After another process changed a run, this many calls lock the run in the database.
LOCKS_AFTER_CONFLICT = 8


class RunSlot:
    """One run's place in the cache, with the queue of its calls."""

    def __init__(self) -> None:
        self.cached: CachedRun | None = None
        self.turns = TurnQueue()
        self.pipeline = CommitPipeline(self._end_batch)
        self._reserved: set[str] = set()
        self._locks_left = 0
        self._free_job_count = FREE_JOB_COUNT

    @property
    def is_in_use(self) -> bool:
        return self.turns.is_taken or bool(self._reserved)

    @property
    def state(self) -> CachedRun | None:
        """Return the run with the changes of all calls so far, committed or not."""
        return self.pipeline.state if self.pipeline.is_sending else self.cached

    def _end_batch(self, state: CachedRun | None, calls: int) -> None:
        self.cached = state
        self.turns.leave(calls)

    def may_use_cache(self) -> bool:
        """Return False for the first calls after a conflict, which must not use the cached run."""
        if self._locks_left:
            self._locks_left -= 1
            return False
        return True

    def mark_contended(self) -> None:
        self.cached = None
        self._locks_left = LOCKS_AFTER_CONFLICT

    def put(self, loaded: CachedRun | None) -> None:
        """Cache a run that was just read."""
        before = self.cached
        if loaded and before and before.head[:2] == loaded.head[:2]:
            others = before.free if len(before.free) < MAX_FILTERS else {}
            free = {**others, **loaded.free}
            loaded = loaded._replace(free=free, documents=before.documents)
        self.cached = loaded

    def advance(self, before: ChainHead, decision: RunDecision[object], head: ChainHead) -> None:
        """Apply committed changes to the cached run. Drop the cached run if it missed a change."""
        if self.cached is not None and self.cached.head.seq < head.seq:
            is_next = self.cached.head[:2] == before[:2]
            self.cached = self.cached.advance(decision, head) if is_next else None

    def needs_load(self, wanted: JobRequest, now: datetime | None) -> bool:
        """Return whether the database may have free jobs that the cached list lacks."""
        free = self.cached.free.get(filter_of(wanted)) if self.cached else None
        if free is None or now is None or now - free.read_at > MAX_FREE_JOBS_AGE:
            return True
        return not free.is_complete and all(job.id in self._reserved for job in free.jobs)

    def begin_load(self, wanted: JobRequest, now: datetime | None) -> int:
        """Return how many free jobs to read. The number doubles if the cached jobs are used up."""
        free = self.cached.free.get(filter_of(wanted)) if self.cached else None
        is_used_up = (
            free is not None and now is not None and now - free.read_at <= MAX_FREE_JOBS_AGE
        )
        doubled = min(2 * self._free_job_count, MAX_FREE_JOB_COUNT)
        self._free_job_count = doubled if is_used_up else FREE_JOB_COUNT
        return self._free_job_count

    def reserve(self, wanted: JobRequest, *, besides: str | None = None) -> Job | None:
        """Reserve the first free job, or return None if no job is free.

        Return None also if the caller already holds a job other than `besides`.
        """
        cached = self.cached
        if cached is None or cached.holds_job(wanted, besides=besides):
            return None
        free = cached.free.get(filter_of(wanted))
        for job in free.jobs if free else ():
            if job.id not in self._reserved:
                self._reserved.add(job.id)
                return job
        return None

    def release(self, job_ids: Sequence[str]) -> None:
        self._reserved.difference_update(job_ids)


class RunCache:
    def __init__(self, most: int = MAX_RUNS) -> None:
        self._slots: OrderedDict[RunKey, RunSlot] = OrderedDict()
        self._most = most

    def slot(self, which: RunKey) -> RunSlot:
        slot = self._slots.get(which)
        if slot is None:
            if len(self._slots) >= self._most:
                # Remove an unused slot, if possible one without a cached run.
                idle = [which for which, slot in self._slots.items() if not slot.is_in_use]
                empty = (which for which in idle if self._slots[which].cached is None)
                evicted = next(empty, idle[0] if idle else None)
                if evicted is not None:
                    del self._slots[evicted]
            slot = self._slots[which] = RunSlot()
        self._slots.move_to_end(which)
        return slot
