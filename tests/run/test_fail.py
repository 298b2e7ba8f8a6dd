import pytest
from hypothesis import given
from hypothesis import strategies as st

from dag_builders import make_step
from plan_builders import BOB, NOON
from run_env import RunEnv, make_run, make_stage_run
from waybook.dag.model import JobStatus, Strategy
from waybook.errors import InvalidTransition, StaleAttempt
from waybook.run.failure import backoff
from waybook.run.model import BACKOFF_SECONDS, MAX_BACKOFF_SECONDS

J = JobStatus


def single_job() -> RunEnv:
    return make_run(make_stage_run(make_step("a", Strategy.ALL_TO_ONE)))


def test_job_failure_is_audited_with_error_and_status() -> None:
    world = single_job()
    job = world.fail(world.claim(), "the network is down")
    assert world.decision is not None
    (entry,) = world.decision.entries
    assert entry.event == "step_failed"
    assert entry.details == {
        "jobId": job.id,
        "stageSlug": "only",
        "stepKey": "a",
        "attempt": 1,
        "status": "retrying",
        "error": "the network is down",
    }


def test_error_that_is_not_retryable_fails_the_job_permanently() -> None:
    world = single_job()
    failed = world.fail(world.claim(), retryable=False)
    assert (failed.status, failed.completed_at) == (J.FAILED, NOON)
    assert world.step("a").failed == 1


def test_former_holder_cannot_report_a_job_as_failed() -> None:
    world = single_job()
    mine = world.claim()
    world.pass_time()
    world.claim(BOB)
    with pytest.raises(StaleAttempt) as refusal:
        world.fail(mine)
    assert refusal.value.details == {
        "jobId": mine.id,
        "attempt": 1,
        "currentAttempt": 2,
        "status": "processing",
    }
    assert refusal.value.next_call is not None
    assert refusal.value.next_call.tool == "get_next_job"


@pytest.mark.parametrize("status", [J.PENDING, J.RETRYING, J.COMPLETED, J.FAILED])
def test_unclaimed_job_cannot_be_reported_as_failed(status: JobStatus) -> None:
    world = single_job()
    (job,) = world.jobs("a")
    if status is not J.PENDING:
        job = world.claim()
    if status is J.COMPLETED:
        world.submit(job, "text")
    elif status is not J.PENDING:
        world.fail(job, retryable=status is J.RETRYING)
    with pytest.raises(InvalidTransition, match="you do not hold it") as refusal:
        world.fail(job)
    assert refusal.value.details["from"] == status
    assert refusal.value.next_call is not None


def test_failed_regeneration_does_not_fail_the_step() -> None:
    world = single_job()
    world.work()
    world.regenerate(world.documents("a")[0].id)
    failed = world.fail(world.claim(), retryable=False)
    assert failed.status is J.FAILED
    assert world.step("a").failed == 0
    assert world.run.completed_at == NOON


@given(st.integers(1, 1000))
def test_backoff_doubles_with_every_attempt_up_to_a_maximum(tries: int) -> None:
    this, following = backoff(tries).seconds, backoff(tries + 1).seconds
    assert BACKOFF_SECONDS <= this <= MAX_BACKOFF_SECONDS
    assert following == min(2 * this, MAX_BACKOFF_SECONDS)
