"""Assigns the next job to an agent, or says why no job is available."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from waybook.core.changes import Event
from waybook.core.decision_context import DecisionContext
from waybook.dag.model import JobStatus, RunState
from waybook.run.failure import fail_permanently
from waybook.run.model import MAX_ATTEMPTS, CompiledDag, Job, Run, RunDecision, RunDraft


class JobReady(NamedTuple):
    job: Job
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class AwaitingFeedback:
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StageFailed:
    stage: str
    steps: tuple[str, ...]


#: The assigned job, or why no job is available. `RunState.IN_PROGRESS` means that each open job has
#: a holder, is delayed, or is for another model. None means that the next job had no attempts left
#: and has now failed, so the caller should ask again.
NextJob: TypeAlias = JobReady | AwaitingFeedback | StageFailed | RunState | None


def next_job(
    run: Run,
    compiled_dag: CompiledDag,
    context: DecisionContext,
    *,
    held: Job | None,
    candidate: Job | None,
    is_open: bool,
) -> RunDecision[NextJob]:
    """Return the job that the caller holds, or assign one, or say why none is available.

    `candidate` is a job that can be claimed. `is_open` is set if the run has any open job.
    """
    draft = RunDraft(run, compiled_dag, context)
    if run.canceled_at is not None:
        return draft.decide(RunState.CANCELED)
    if held is not None and context.actor.holder.is_same_conversation(held.holder):
        draft.record_heartbeat(held.id)
        return draft.decide(JobReady(held, resumed=True))
    if candidate is None:
        return draft.decide(RunState.IN_PROGRESS if is_open else _reason(run, compiled_dag))
    if candidate.tries >= MAX_ATTEMPTS:
        fail_permanently(
            draft, candidate, "the last holder's lease expired and no attempts are left"
        )
        return draft.decide(None)
    return draft.decide(JobReady(_claim(draft, candidate)))


def _reason(run: Run, compiled_dag: CompiledDag) -> NextJob:
    failed = run.failed_steps
    for slug in compiled_dag.order:
        if steps := tuple(step.key for step in failed if step.stage == slug):
            return StageFailed(slug, steps)
    waiting = tuple(
        slug
        for slug in compiled_dag.order
        if (stage := run.stages.get(slug))
        and stage.completed_at
        and stage.feedback is None
        and any(after not in run.stages for after in compiled_dag.dag.after(slug))
    )
    return AwaitingFeedback(waiting) if waiting else RunState.COMPLETED


def _claim(draft: RunDraft, job: Job) -> Job:
    actor = draft.moment.actor
    claimed = draft.set_job(
        job,
        status=JobStatus.PROCESSING,
        attempt=job.attempt + 1,
        tries=job.tries + 1,
        held_by=actor.user,
        held_session=actor.session,
        started_at=draft.moment.now,
        error=None,
    )
    draft.record_heartbeat(job.id)
    taken_from = job.held_by if job.status is JobStatus.PROCESSING else None
    draft.record_job(Event.STEP_STARTED, claimed, takenFrom=taken_from)
    return claimed
