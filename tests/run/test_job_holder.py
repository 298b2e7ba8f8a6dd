import pytest

from dag_builders import make_step
from plan_builders import ANN, BOB
from run_env import RunEnv, make_run, make_stage_run
from waybook.dag.model import JobStatus, Strategy
from waybook.errors import InvalidTransition, StaleAttempt
from waybook.run.failure import holder_error, require_holder


def single_job() -> RunEnv:
    return make_run(make_stage_run(make_step("a", Strategy.ALL_TO_ONE)))


def test_result_for_the_current_attempt_of_a_job_is_accepted() -> None:
    job = single_job().claim()
    assert holder_error(job, job.attempt, BOB) is None
    require_holder(job, job.attempt, BOB)


def test_job_result_without_attempt_is_accepted_only_from_the_holder() -> None:
    job = single_job().claim()
    require_holder(job, None, ANN)
    for other in (BOB, ANN._replace(session="other"), ANN._replace(session=None)):
        with pytest.raises(StaleAttempt, match="you do not hold this job: it is at attempt 1"):
            require_holder(job, None, other)


def test_error_for_older_job_attempt_names_holder_and_next_call() -> None:
    world = single_job()
    mine = world.claim()
    world.pass_time()
    refusal = holder_error(world.claim(BOB), mine.attempt, ANN)
    assert refusal is not None
    assert refusal.message == (
        "attempt 1 of this job is over: it is at attempt 2, processing by bob"
    )
    assert refusal.next_call is not None
    assert refusal.next_call.tool == "get_next_job"


@pytest.mark.parametrize("attempt", [-1, 1, 5])
def test_error_for_wrong_attempt_of_unclaimed_job_names_attempt_0(attempt: int) -> None:
    (job,) = single_job().jobs("a")
    refusal = holder_error(job, attempt, ANN)
    assert refusal is not None
    assert refusal.message == (
        f"attempt {attempt} of this job does not exist: it is at attempt 0, pending"
    )


@pytest.mark.parametrize("attempt", [0, 2, 5])
def test_error_for_wrong_attempt_of_job_shows_status_and_holder(attempt: int) -> None:
    refusal = holder_error(single_job().claim(BOB), attempt, BOB)
    assert refusal is not None
    assert refusal.message == (
        f"attempt {attempt} of this job does not exist: it is at attempt 1, processing by bob"
    )
    assert refusal.next_call is not None
    assert refusal.next_call.why == "Get your job again, with its current attempt."


def test_attempt_of_a_job_is_checked_before_the_status() -> None:
    (job,) = single_job().jobs("a")
    with pytest.raises(StaleAttempt):
        require_holder(job, 1, ANN)
    with pytest.raises(InvalidTransition) as refusal:
        require_holder(job, 0, ANN)
    assert refusal.value.details["from"] == JobStatus.PENDING
