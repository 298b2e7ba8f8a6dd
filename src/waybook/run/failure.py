"""Handles failed jobs and their retries, produces documents again, and cancels runs.

A canceled run keeps all its rows. A result for one of its jobs is refused, but stored as a late
result.
"""

from collections.abc import Sequence
from datetime import timedelta

from waybook.core.changes import Event
from waybook.core.decision_context import Actor, DecisionContext, is_current_attempt
from waybook.dag.model import FAILED_JOB, JobStatus
from waybook.errors import InvalidTransition, NextCall, Refused, RunCanceled, StaleAttempt
from waybook.json_values import Json
from waybook.run.model import (
    BACKOFF_SECONDS,
    MAX_ATTEMPTS,
    MAX_BACKOFF_SECONDS,
    CompiledDag,
    Job,
    Run,
    RunDecision,
    RunDraft,
    progress_call,
)
from waybook.run.stages import recreate_job, require_stage, require_step

_PRODUCED = "See what the run produced."


def cancel_run(
    run: Run, compiled_dag: CompiledDag, reason: str, context: DecisionContext
) -> RunDecision[int]:
    """Cancel a run permanently, and reply with the number of unfinished jobs.

    The rows and documents of the run are not changed.

    Raises:
        RunCanceled: the run is already canceled.
        InvalidTransition: the run is completed.
    """
    require_active(run)
    if run.completed_at is not None:
        raise InvalidTransition(
            "this run is already completed and cannot be canceled",
            old="completed",
            new="canceled",
            runId=run.id,
            next_call=progress_call(run, _PRODUCED),
        )
    draft = RunDraft(run, compiled_dag, context)
    draft.set_run(canceled_at=context.now, canceled_by=context.actor.user, cancel_reason=reason)
    draft.record(Event.PLAN_MODIFIED, action="cancel_run", reason=reason)
    open_units = sum(step.total - step.done - step.failed for step in run.steps.values())
    return draft.decide(open_units)


def cancellation_error(run: Run, **details: object) -> RunCanceled | None:
    if run.canceled_at is None:
        return None
    # The reason is a user's text, so it gets its own field and is not part of the server's message.
    return RunCanceled(
        f"{run.canceled_by} canceled this run; `reason` says why",
        runId=run.id,
        canceledBy=run.canceled_by,
        canceledAt=run.canceled_at.isoformat(),
        reason=run.cancel_reason,
        **details,
        next_call=progress_call(run, _PRODUCED),
    )


def require_active(run: Run) -> None:
    if refusal := cancellation_error(run):
        raise refusal


def retry_failed(
    run: Run,
    compiled_dag: CompiledDag,
    slug: str,
    failed: Sequence[Job],
    context: DecisionContext,
    *,
    step_key: str | None = None,
) -> RunDecision[tuple[Job, ...]]:
    """Reset the failed jobs of a stage, or of one of its steps, to pending.

    Raises:
        RunCanceled: the run is canceled.
        NotFound: the stage or the step does not exist.
    """
    require_active(run)
    require_stage(compiled_dag, slug)
    if step_key is not None:
        require_step(compiled_dag, slug, step_key)
    draft = RunDraft(run, compiled_dag, context)
    reset = list[Job]()
    for job in (job for job in failed if job.status in FAILED_JOB):
        if job.counted:
            step = draft.step_of(job)
            draft.set_step(step, failed=step.failed - 1)
        pending = draft.set_job(
            job,
            status=JobStatus.PENDING,
            tries=0,
            ready_at=context.now,
            completed_at=None,
            held_by=None,
            held_session=None,
        )
        reset.append(pending)
    if reset:
        draft.record(Event.PLAN_MODIFIED, action="retry_failed", stageSlug=slug, jobs=len(reset))
    return draft.decide(tuple(reset))


def regenerate(
    run: Run,
    compiled_dag: CompiledDag,
    job: Job,
    document_id: str,
    context: DecisionContext,
    *,
    following: Sequence[tuple[Job, str]] = (),
) -> RunDecision[tuple[Job, int]]:
    """Create a job that produces a document again, as its next version.

    The reply has the new job and the number of jobs that were created for dependent documents.

    The new job replaces the original job. If the step is closed, it stays closed. `following` has
    the jobs of the dependent documents, each with its document. Completed jobs are replaced too.

    Raises:
        RunCanceled: the run is canceled.
        InvalidTransition: the job that produced the document is not completed, or was replaced.
    """
    require_active(run)
    if job.status is not JobStatus.COMPLETED:
        raise InvalidTransition(
            f"the job of this document is {job.status}; only a completed one can be regenerated",
            old=job.status,
            new=JobStatus.SUPERSEDED,
            next_call=progress_call(run),
        )
    draft = RunDraft(run, compiled_dag, context)
    fresh = _replace_job(draft, job, document_id)
    later = [(old, made) for old, made in following if old.status is JobStatus.COMPLETED]
    for old, made in later:
        _replace_job(draft, old, made)
    draft.record(
        Event.PLAN_MODIFIED,
        action="regenerate",
        jobId=job.id,
        newJobId=fresh.id,
        documentId=document_id,
        **({"following": len(later)} if later else {}),
    )
    return draft.decide((fresh, len(later)))


def _replace_job(draft: RunDraft, job: Job, document_id: str) -> Job:
    step = draft.step_of(job)
    counted = step.closed_at is None and job.counted
    draft.set_job(job, status=JobStatus.SUPERSEDED)
    fresh = recreate_job(draft, job, document=document_id, counted=counted)
    if counted:
        draft.set_step(step, done=step.done - 1)
    return fresh


_NEXT_JOB_CALL = NextCall("get_next_job", {}, "Claim another job.")
AGAIN = NextCall("get_next_job", {}, "Get your job again, with its current attempt.")


def holder_error(job: Job, attempt: int | None, actor: Actor) -> Refused | None:
    """Return the error to raise if the caller does not hold the job, or None if it does."""
    if is_current_attempt(attempt, job, actor):
        if job.status is JobStatus.PROCESSING:
            return None
        return InvalidTransition(
            f"this job is {job.status}, and you do not hold it; first call get_next_job",
            old=job.status,
            new=JobStatus.COMPLETED,
            jobId=job.id,
            next_call=_NEXT_JOB_CALL,
        )
    by = f" by {job.held_by}" if job.held_by else ""
    existed = attempt is not None and 1 <= attempt < job.attempt
    why = f"attempt {attempt} of this job {'is over' if existed else 'does not exist'}"
    return StaleAttempt(
        f"{'you do not hold this job' if attempt is None else why}: it is at "
        f"attempt {job.attempt}, {job.status}{by}",
        jobId=job.id,
        attempt=attempt,
        currentAttempt=job.attempt,
        status=str(job.status),
        next_call=_NEXT_JOB_CALL if existed else AGAIN,
    )


def require_holder(job: Job, attempt: int | None, actor: Actor) -> None:
    """Raise an error if the caller does not hold the job.

    Raises:
        StaleAttempt: `attempt` is not the job's current attempt, or another agent holds the job.
        InvalidTransition: no agent holds the job.
    """
    if refusal := holder_error(job, attempt, actor):
        raise refusal


def fail_job(
    run: Run,
    compiled_dag: CompiledDag,
    job: Job,
    *,
    attempt: int | None,
    error: str,
    retryable: bool,
    context: DecisionContext,
) -> RunDecision[Job]:
    """Record that an attempt at a job failed: schedule a retry, or fail the job permanently.

    Raises:
        RunCanceled: the run is canceled.
        StaleAttempt: another agent has claimed the job since.
        InvalidTransition: no agent holds the job.
    """
    require_active(run)
    require_holder(job, attempt, context.actor)
    draft = RunDraft(run, compiled_dag, context)
    if retryable and job.tries < MAX_ATTEMPTS:
        ready_at = context.now + backoff(job.tries)
        failed = draft.set_job(job, status=JobStatus.RETRYING, error=error, ready_at=ready_at)
        draft.record_job(Event.STEP_FAILED, failed, status=str(failed.status), error=error)
        return draft.decide(failed)
    status = JobStatus.RETRY_LOOP_FAILED if retryable else JobStatus.FAILED
    return draft.decide(fail_permanently(draft, job, error, status))


def give_back(
    run: Run,
    compiled_dag: CompiledDag,
    job: Job,
    *,
    attempt: int | None,
    details: dict[str, Json],
    context: DecisionContext,
) -> RunDecision[Job]:
    """Make a job claimable at once. The attempt does not count.

    Raises:
        RunCanceled: the run is canceled.
        StaleAttempt: another agent has claimed the job since.
        InvalidTransition: no agent holds the job.
    """
    require_active(run)
    require_holder(job, attempt, context.actor)
    draft = RunDraft(run, compiled_dag, context)
    returned = draft.set_job(
        job,
        status=JobStatus.PENDING,
        tries=job.tries - 1,
        ready_at=context.now,
        held_by=None,
        held_session=None,
    )
    draft.record_job(Event.PLAN_MODIFIED, returned, action="give_back", **details)
    return draft.decide(returned)


def fail_permanently(
    draft: RunDraft, job: Job, error: str, status: JobStatus = JobStatus.RETRY_LOOP_FAILED
) -> Job:
    failed = draft.set_job(job, status=status, error=error, completed_at=draft.moment.now)
    if job.counted:
        step = draft.step_of(job)
        draft.set_step(step, failed=step.failed + 1)
    draft.record_job(Event.STEP_FAILED, failed, status=str(failed.status), error=error)
    return failed


def backoff(tries: int) -> timedelta:
    """Return the delay before a job is retried. It doubles with each attempt up to a limit.

    >>> [backoff(tries).seconds for tries in (1, 2, 3, 10)]
    [5, 10, 20, 300]
    """
    return timedelta(seconds=min(BACKOFF_SECONDS * 2 ** (tries - 1), MAX_BACKOFF_SECONDS))
