"""Whether somebody still holds the job they speak of."""

from waybook.dag.model import JobStatus
from waybook.errors import InvalidTransition, NextCall, StaleAttempt
from waybook.run.model import Job

NEXT_JOB_CALL = NextCall("get_next_job", {}, "ask for another job")
AGAIN = NextCall("get_next_job", {}, "get your job again; its reply has the attempt")


def stale_attempt_error(job: Job, attempt: int) -> StaleAttempt | None:
    """The refusal for somebody whose job has moved on; None if it has not."""
    if job.attempt == attempt:
        return None
    by = f" by {job.held_by}" if job.held_by else ""
    existed = 1 <= attempt < job.attempt
    return StaleAttempt(
        f"attempt {attempt} of this job {'is over' if existed else 'does not exist'}: it is at "
        f"attempt {job.attempt}, {job.status}{by}",
        jobId=job.id,
        attempt=attempt,
        currentAttempt=job.attempt,
        status=str(job.status),
        next_call=NEXT_JOB_CALL if existed else AGAIN,
    )


def require_holder(job: Job, attempt: int) -> None:
    """Let only whoever holds the job pass.

    Raises:
        StaleAttempt: the job has moved on to another attempt.
        IllegalMove: it is not being worked on.
    """
    refusal = stale_attempt_error(job, attempt)
    if refusal is not None:
        raise refusal
    if job.status is not JobStatus.PROCESSING:
        raise InvalidTransition(
            f"this job is {job.status}, nobody works on it; take a job with get_next_job first",
            old=job.status,
            new=JobStatus.COMPLETED,
            jobId=job.id,
            next_call=NEXT_JOB_CALL,
        )
