"""Reads documents that are inputs of jobs, from the cache of the run or from the database."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import chain

from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES
from waybook.dag.expansion.inputs import DocumentSlot
from waybook.run.model import Job
from waybook.store.driver.queries import Statement
from waybook.store.runs import inputs
from waybook.store.runs.cache import CachedRun
from waybook.store.runs.inputs import DocumentInfo

#: Number of next free jobs whose inputs are read at the same time.
READ_AHEAD_JOBS = 8


def document_statements(
    locked: LockedRun, slots: list[DocumentSlot], as_of: datetime | None
) -> list[Statement]:
    return inputs.documents_statements(locked.run.id, slots, MAX_COMPACT_REPLY_BYTES, as_of)


async def read_documents(
    locked: LockedRun, job: Job, slots_of: Callable[[Job], list[DocumentSlot]]
) -> dict[str, DocumentInfo]:
    """Return the input documents of a job, by id.

    A claimed job keeps the versions that were the latest when it was claimed. If documents are
    missing in a cached run, those of the next free jobs are read and cached too.
    """
    slots, cached = slots_of(job), locked.cached_run
    if cached is None:
        return await _read(locked, slots, job.started_at)
    known = [cached.documents.get(slot) for slot in slots]
    if None not in known:
        return {info.document.id: info for infos in known if infos for info in infos}
    unknown = list(dict.fromkeys(_unknown_slots(cached, job, slots_of)))
    writes = cached.documents.writes_of(unknown)
    read = await _read(locked, unknown, None)
    cached.documents.put(unknown, writes, read.values())
    return {
        info.document.id: info
        for slot, infos in zip(slots, known, strict=True)
        for info in (inputs.documents_in(slot, read.values()) if infos is None else infos)
    }


async def _read(
    locked: LockedRun, slots: list[DocumentSlot], as_of: datetime | None
) -> dict[str, DocumentInfo]:
    results = await locked.send(*document_statements(locked, slots, as_of))
    return inputs.read_documents(chain.from_iterable(results))


def _unknown_slots(
    cached: CachedRun, job: Job, slots_of: Callable[[Job], list[DocumentSlot]]
) -> Iterator[DocumentSlot]:
    for other in (job, *cached.jobs_after(job, READ_AHEAD_JOBS)):
        if other.unit is not None:
            yield from (slot for slot in slots_of(other) if cached.documents.get(slot) is None)
