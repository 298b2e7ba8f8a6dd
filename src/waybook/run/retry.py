"""Bringing work back: what failed, and what should be written anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from waybook.dag.model import FAILED_JOB, JobStatus
from waybook.errors import InvalidTransition, NextCall
from waybook.record.changes import Event
from waybook.record.moment import DecisionContext
from waybook.run.decision import RunDecision
from waybook.run.draft import RunDraft
from waybook.run.model import CompiledDag, Job, Run
from waybook.run.stages import recreate_job, require_stage, require_step


@dataclass(frozen=True, slots=True)
class RetriedJobs:
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class RegenerationJob:
    job: Job


def retry_failed(
    run: Run,
    compiled_dag: CompiledDag,
    slug: str,
    failed: Sequence[Job],
    context: DecisionContext,
    *,
    step_key: str | None = None,
) -> RunDecision[RetriedJobs]:
    """Give every failed job of a stage, or of one of its steps, a fresh start, in its own row.

    Raises:
        InvalidInput: there is no such stage or step.
    """
    require_stage(compiled_dag, slug)
    if step_key is not None:
        require_step(compiled_dag, slug, step_key)
    draft = RunDraft(run, compiled_dag, context)
    brought = tuple(_fresh(draft, job) for job in failed if job.status in FAILED_JOB)
    if brought:
        draft.record(Event.PLAN_MODIFIED, action="retry_failed", stageSlug=slug, jobs=len(brought))
    return draft.decide(RetriedJobs(brought))


def _fresh(draft: RunDraft, job: Job) -> Job:
    if job.counted:
        step = draft.step_of(job)
        draft.set_step(step, failed=step.failed - 1)
    return draft.set_job(
        job,
        status=JobStatus.PENDING,
        tries=0,
        ready_at=draft.moment.now,
        completed_at=None,
        held_by=None,
        held_session=None,
    )


def regenerate(
    run: Run, compiled_dag: CompiledDag, job: Job, document_id: str, context: DecisionContext
) -> RunDecision[RegenerationJob]:
    """Have a document written anew: a new job supersedes the one that made it.

    A closed step stays closed; when the new job is done there is a new version of the document.

    Raises:
        IllegalMove: the job that made it is not completed, so the document is on its way anyway.
    """
    if job.status is not JobStatus.COMPLETED:
        raise InvalidTransition(
            f"the job that made this document is {job.status}; there is nothing to write anew",
            old=job.status,
            new=JobStatus.SUPERSEDED,
            next_call=NextCall("get_run_progress", {"runId": run.id}, "see where the run stands"),
        )
    draft = RunDraft(run, compiled_dag, context)
    step = draft.step_of(job)
    counted = step.closed_at is None and job.counted
    draft.set_job(job, status=JobStatus.SUPERSEDED)
    fresh = recreate_job(draft, job, document=document_id, counted=counted)
    draft.add_job(fresh)
    if counted:
        draft.set_step(step, done=step.done - 1)
    draft.record(
        Event.PLAN_MODIFIED,
        action="regenerate",
        jobId=job.id,
        newJobId=fresh.id,
        documentId=document_id,
    )
    return draft.decide(RegenerationJob(fresh))
