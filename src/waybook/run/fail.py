"""When a job does not work out: tried again after a while, or given up."""

from dataclasses import dataclass
from datetime import timedelta

from waybook.dag.model import JobStatus
from waybook.record.changes import Event
from waybook.record.moment import DecisionContext
from waybook.run.decision import RunDecision
from waybook.run.draft import RunDraft
from waybook.run.holding import require_holder
from waybook.run.limits import BACKOFF_SECONDS, MAX_ATTEMPTS, MAX_BACKOFF_SECONDS
from waybook.run.model import CompiledDag, Job, Run


@dataclass(frozen=True, slots=True)
class JobFailed:
    """What became of the job."""

    job: Job


def fail_job(
    run: Run,
    compiled_dag: CompiledDag,
    job: Job,
    *,
    attempt: int,
    error: str,
    retryable: bool,
    context: DecisionContext,
) -> RunDecision[JobFailed]:
    """Take back a job that did not work out.

    Raises:
        StaleAttempt: somebody else has taken it over.
        IllegalMove: it is not being worked on.
    """
    require_holder(job, attempt)
    draft = RunDraft(run, compiled_dag, context)
    if retryable and job.tries < MAX_ATTEMPTS:
        ready_at = context.now + backoff(job.tries)
        failed = draft.set_job(job, status=JobStatus.RETRYING, error=error, ready_at=ready_at)
        _record(draft, failed, error)
        return draft.decide(JobFailed(failed))
    status = JobStatus.RETRY_LOOP_FAILED if retryable else JobStatus.FAILED
    return draft.decide(JobFailed(fail_permanently(draft, job, error, status)))


def fail_permanently(
    draft: RunDraft, job: Job, error: str, status: JobStatus = JobStatus.RETRY_LOOP_FAILED
) -> Job:
    """End a job without a result; only a person or an agent brings it back."""
    failed = draft.set_job(job, status=status, error=error, completed_at=draft.moment.now)
    if job.counted:
        step = draft.step_of(job)
        draft.set_step(step, failed=step.failed + 1)
    _record(draft, failed, error)
    return failed


def backoff(tries: int) -> timedelta:
    """How long to wait after so many tries: twice as long each time, up to a bound.

    >>> [backoff(tries).seconds for tries in (1, 2, 3, 10)]
    [5, 10, 20, 300]
    """
    return timedelta(seconds=min(BACKOFF_SECONDS * 2 ** (tries - 1), MAX_BACKOFF_SECONDS))


def _record(draft: RunDraft, job: Job, error: str) -> None:
    draft.record(
        Event.STEP_FAILED,
        jobId=job.id,
        stageSlug=job.stage,
        stepKey=job.step_key,
        attempt=job.attempt,
        status=str(job.status),
        error=error,
    )
