"""Bringing work back: what failed, and what should be written anew."""

from collections.abc import Sequence
from dataclasses import dataclass

from waybook.dag.model import FAILED_JOB, JobStatus
from waybook.errors import IllegalMove, NextCall
from waybook.record.changes import Event
from waybook.record.moment import Moment
from waybook.run.decision import RunDecision
from waybook.run.draft import RunDraft
from waybook.run.model import Chart, Job, Run
from waybook.run.stages import again, known_stage, known_step


@dataclass(frozen=True, slots=True)
class Retried:
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Regenerating:
    job: Job


def retry_failed(
    run: Run,
    chart: Chart,
    slug: str,
    failed: Sequence[Job],
    moment: Moment,
    *,
    step_key: str | None = None,
) -> RunDecision[Retried]:
    """Give every failed job of a stage, or of one of its steps, a fresh start, in its own row.

    Raises:
        InvalidInput: there is no such stage or step.
    """
    known_stage(chart, slug)
    if step_key is not None:
        known_step(chart, slug, step_key)
    draft = RunDraft(run, chart, moment)
    brought = tuple(_fresh(draft, job) for job in failed if job.status in FAILED_JOB)
    if brought:
        draft.record(Event.PLAN_MODIFIED, action="retry_failed", stageSlug=slug, jobs=len(brought))
    return draft.decide(Retried(brought))


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
    run: Run, chart: Chart, job: Job, document_id: str, moment: Moment
) -> RunDecision[Regenerating]:
    """Have a document written anew: a new job supersedes the one that made it.

    A closed step stays closed; when the new job is done there is a new version of the document.

    Raises:
        IllegalMove: the job that made it is not completed, so the document is on its way anyway.
    """
    if job.status is not JobStatus.COMPLETED:
        raise IllegalMove(
            f"the job that made this document is {job.status}; there is nothing to write anew",
            old=job.status,
            new=JobStatus.SUPERSEDED,
            next_call=NextCall("get_run_progress", {"runId": run.id}, "see where the run stands"),
        )
    draft = RunDraft(run, chart, moment)
    step = draft.step_of(job)
    counted = step.closed_at is None and job.counted
    draft.set_job(job, status=JobStatus.SUPERSEDED)
    fresh = again(draft, job, document=document_id, counted=counted)
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
    return draft.decide(Regenerating(fresh))
