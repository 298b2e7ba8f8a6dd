"""Cache of runs: free and held jobs, order of calls, and eviction."""

import asyncio
from datetime import UTC, datetime

import pytest

from waybook.core.decision_context import Holder
from waybook.dag.expansion.units import ProducedDocument, Unit
from waybook.dag.model import JobStatus, JobType
from waybook.errors import Busy
from waybook.run.model import Job, Run, RunDecision, StepRun
from waybook.store.audit import ChainHead
from waybook.store.runs import cache
from waybook.store.runs.cache import CachedRun, FreeJobs
from waybook.store.runs.inputs import DocumentCache
from waybook.store.runs.jobs import JobRequest
from waybook.store.runs.load import RunBriefRow
from waybook.store.runs.slots import RunCache, RunSlot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ME = Holder("ann", "main")
WANTED = JobRequest(model=None, job_type=None, lease_seconds=900, holder=ME)
RUN = Run(id="r", name="Run", seq=1, completed_at=None, stages={}, steps={})
BEFORE, AFTER = ChainHead(1, b"1", NOW), ChainHead(2, b"2", NOW)


def make_job(job_id: str, status: JobStatus = JobStatus.PENDING) -> Job:
    made = (ProducedDocument("m", "l", None),)
    return Job(
        id=job_id,
        stage="s",
        step_key="k",
        job_type=JobType.EXECUTE,
        model="m",
        rank=1,
        unit=Unit(step_key="k", number=1, model="m", makes=made),
        status=status,
        ready_at=NOW,
    )


def make_slot(*free: Job, held: tuple[Job, ...] = (), is_complete: bool = False) -> RunSlot:
    """Return the cache entry of a run with these free jobs and held jobs."""
    slot = RunSlot()
    slot.cached = CachedRun(
        run=RUN,
        dag_slug="d",
        dag_version=1,
        head=BEFORE,
        brief=RunBriefRow("x", NOW, "ann"),
        held={job.id: job for job in held},
        free={(None, None): FreeJobs(free, is_complete, NOW)},
        documents=DocumentCache(),
    )
    return slot


def claim(job: Job, holder: Holder = ME) -> Job:
    user, session = holder
    status = JobStatus.PROCESSING
    return job._replace(status=status, attempt=1, held_by=user, held_session=session)


def decide(*jobs: Job, run: Run = RUN) -> RunDecision[object]:
    return RunDecision(None, run, jobs={job.id: job for job in jobs})


def test_job_reserved_for_a_caller_is_free_only_after_release() -> None:
    slot = make_slot(make_job("1"), make_job("2"))
    first, second = slot.reserve(WANTED), slot.reserve(WANTED)
    assert first
    assert second
    assert (first.id, second.id, slot.reserve(WANTED)) == ("1", "2", None)
    slot.release([first.id])
    assert slot.reserve(WANTED) == first


def test_cache_reserves_no_other_job_for_holder_of_a_job() -> None:
    mine = claim(make_job("1"))
    slot = make_slot(make_job("2"), held=(mine,))
    assert slot.reserve(WANTED) is None
    assert slot.reserve(WANTED._replace(holder=None))
    assert make_slot(make_job("2"), held=(mine,)).reserve(WANTED, besides="1")
    other = WANTED._replace(holder=Holder("ann", "other"))
    assert make_slot(make_job("2"), held=(mine,)).reserve(other)


def test_run_cache_lists_claimed_job_as_held_instead_of_free() -> None:
    job = make_job("1")
    slot = make_slot(job, make_job("2"))
    slot.advance(BEFORE, decide(claim(job)), AFTER)
    assert slot.cached is not None
    assert (slot.cached.head, [*slot.cached.held]) == (AFTER, ["1"])
    assert not slot.cached.is_free(job, WANTED)
    assert slot.cached.is_free(make_job("2"), WANTED)


def test_run_cache_reloads_free_jobs_after_a_new_job() -> None:
    slot = make_slot(make_job("2"))
    slot.advance(BEFORE, decide(make_job("1")), AFTER)
    assert slot.needs_load(WANTED, NOW)
    assert slot.reserve(WANTED) is None


def test_run_is_removed_from_cache_if_a_change_used_an_outdated_state() -> None:
    slot = make_slot(make_job("1"))
    slot.advance(ChainHead(2, b"2", NOW), decide(), ChainHead(3, b"3", NOW))
    assert slot.cached is None


STEP = StepRun(stage="s", key="k", total=1, opened_at=NOW)
LARGE = RUN._replace(steps={str(number): STEP for number in range(cache.MAX_STEPS + 1)})


@pytest.mark.parametrize(
    "ended", [RUN._replace(completed_at=NOW), RUN._replace(canceled_at=NOW), LARGE]
)
def test_ended_or_too_large_run_is_removed_from_cache(ended: Run) -> None:
    slot = make_slot(make_job("1"))
    slot.advance(BEFORE, decide(run=ended), AFTER)
    assert slot.cached is None


async def test_calls_on_a_run_take_turns_in_order_of_arrival() -> None:
    slot, order = RunSlot(), list[int]()

    async def work(number: int) -> None:
        await slot.turns.take()
        order.append(number)
        await asyncio.sleep(0)
        slot.turns.end()

    await asyncio.gather(*(work(number) for number in range(5)))
    assert order == [*range(5)]


async def test_call_that_waits_too_long_for_a_turn_gets_busy() -> None:
    slot = RunSlot()
    await slot.turns.take()
    with pytest.raises(Busy):
        await slot.turns.take(seconds=0.001)
    slot.turns.end()
    await slot.turns.take(seconds=0.001)


async def test_run_cache_evicts_neither_runs_in_use_nor_recent_runs() -> None:
    runs, org = RunCache(most=2), 1
    first = runs.slot((org, "1"))
    await first.turns.take()
    second = runs.slot((org, "2"))
    runs.slot((org, "3"))
    assert runs.slot((org, "1")) is first
    assert runs.slot((org, "2")) is not second
