import pytest

from dag_builders import a_step
from plan_builders import BOB
from run_worlds import RunWorld, a_run, a_stage_of
from waybook.dag.model import JobStatus, Strategy
from waybook.errors import IllegalMove, StaleAttempt
from waybook.run.holding import held_job, stale


def one_job() -> RunWorld:
    return a_run(a_stage_of(a_step("a", Strategy.ALL_TO_ONE)))


def test_who_holds_a_job_may_speak_of_it() -> None:
    job = one_job().claim()
    assert stale(job, job.attempt) is None
    held_job(job, job.attempt)


def test_who_was_overtaken_is_told_by_whom_and_what_to_do() -> None:
    world = one_job()
    mine = world.claim()
    world.pass_time()
    refusal = stale(world.claim(BOB), mine.attempt)
    assert refusal is not None
    assert refusal.message == (
        "attempt 1 of this job is over: it is at attempt 2, processing by bob"
    )
    assert refusal.next_call is not None
    assert refusal.next_call.tool == "get_next_job"


def test_where_nobody_holds_the_job_nobody_is_named() -> None:
    (job,) = one_job().jobs("a")
    refusal = stale(job, 1)
    assert refusal is not None
    assert refusal.message == "attempt 1 of this job is over: it is at attempt 0, pending"


def test_the_attempt_is_looked_at_before_the_status() -> None:
    (job,) = one_job().jobs("a")
    with pytest.raises(StaleAttempt):
        held_job(job, 1)
    with pytest.raises(IllegalMove) as refusal:
        held_job(job, 0)
    assert refusal.value.details["from"] == JobStatus.PENDING
