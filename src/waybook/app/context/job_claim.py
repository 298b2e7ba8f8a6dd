"""The reply to an agent that gets a job, and claims of free jobs in a cached run."""

from typing import NamedTuple

import orjson

from waybook.app.context.job import build_job_packet
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal
from waybook.app.request.reply import MAX_COMPACT_REPLY_BYTES, next_call
from waybook.json_values import Body, non_empty
from waybook.run.model import Job
from waybook.run.next_job import JobReady, next_job
from waybook.store.runs.jobs import JobRequest


async def ready_reply(locked: LockedRun, ready: JobReady) -> Body:
    job = ready.job
    step = locked.compiled_dag.graphs[job.stage].steps[job.step_key]
    args: Body = {"jobId": job.id, "attempt": job.attempt, "takeNext": True}
    head = non_empty(
        status="job_ready",
        runId=locked.run.id,
        runName=locked.run.name,
        stageSlug=job.stage,
        stepKey=job.step_key,
        stepName=step.name,
        jobId=job.id,
        jobType=str(job.job_type),
        modelId=job.model,
        attempt=job.attempt,
        leaseSeconds=round(locked.ctx.services.lease.total_seconds()),
        resumed=ready.resumed or None,
        next=next_call("submit_job_result", "Submit the result.", **args),
    )
    return {
        **head,
        **await build_job_packet(locked, job, MAX_COMPACT_REPLY_BYTES - len(orjson.dumps(head))),
    }


class PreparedClaim(NamedTuple):
    """A free job that is reserved for a call, and the reply with the job's inputs."""

    job: Job
    body: Body
    #: Number of documents of the run that were regenerated before the inputs were read.
    regenerated: int


async def prepare_claim(
    locked: LockedRun, wanted: JobRequest, *, besides: str | None = None
) -> PreparedClaim | None:
    """Reserve a free job of the cached run and read its inputs.

    Return None if the call must lock the run instead.
    """
    job = await locked.reserve(wanted, besides=besides)
    if job is None or locked.cached_run is None:
        return None
    regenerated = locked.cached_run.documents.regenerated
    # The job is claimed later, in the call's turn. The reply only needs the new attempt number.
    claimed = job._replace(attempt=job.attempt + 1)
    return PreparedClaim(job, await ready_reply(locked, JobReady(claimed)), regenerated)


def claim_prepared_job(
    locked: LockedRun, wanted: JobRequest, prepared: PreparedClaim
) -> RunProposal | None:
    job, cached = prepared.job, locked.cached_run
    if cached is None or cached.documents.regenerated > prepared.regenerated:
        return None
    if not locked.can_claim(job, wanted):
        return None
    dag, context = locked.compiled_dag, locked.decision_context
    decision = next_job(locked.run, dag, context, held=None, candidate=job, open_jobs=())
    if not isinstance(decision.reply, JobReady):
        return None
    return Proposal(decision, prepared.body, jobs=(job,))
