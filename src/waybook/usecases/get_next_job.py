"""get_next_job: take the next job of a run, or learn why there is none."""

from typing import assert_never

import orjson
from pydantic import Field

from waybook.dag.model import JobStatus, JobType
from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.run.decision import RunDecision
from waybook.run.model import Job, Run
from waybook.run.next_job import (
    AwaitingFeedback,
    GivenUp,
    JobReady,
    NextJob,
    NothingReady,
    OpenJobs,
    RunComplete,
    StageFailed,
    next_job,
)
from waybook.store import jobs
from waybook.store.jobs import Asked
from waybook.usecases.arguments import Id, Loose, Mutating
from waybook.usecases.call import Body, Call, known
from waybook.usecases.job_packet import packet
from waybook.usecases.links import run_url
from waybook.usecases.run_call import HeldRun, locked_run
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import MOST_IN_A_REPLY, following, moment, told, within_reply

#: How often a job that cannot be handed out is put aside for the next one.
MOST_LOOKS = 50
MOST_OPEN = 40
#: The types of jobs there are for others than the server.
TYPES = frozenset({JobType.PLAN, JobType.EXECUTE})


class GetNextJob(Mutating):
    run_id: Id | None = Field(None, description="default: any run")
    model_id: Id | None = Field(None, description="default: any model")
    job_types: Loose[list[Id]] | None = Field(None, description="PLAN, EXECUTE")
    another: bool = Field(default=False, description="besides the one you hold")


async def get_next_job(call: Call, asked: GetNextJob) -> Body:
    """Claim the next free job and hand it out with all it needs, or say why there is none."""
    wanted = _asked(call, asked)
    for _ in range(MOST_LOOKS):
        run_id = await _run_with_work(call, wanted) if asked.run_id is None else known(asked.run_id)
        if run_id is None:
            break
        free = jobs.free_statement(run_id, wanted)
        held_by_caller = jobs.held_statement(run_id, wanted)
        async with locked_run(call, run_id, held_by_caller, free) as held:
            decision, before = await _decide(held)
            reply = decision.reply
            if not isinstance(reply, GivenUp):
                return await held.write(decision, await _reply(held, reply), *before)
            await held.write(decision, {}, *before, keep=False)
    return await _nothing_anywhere(call, asked)


def _asked(call: Call, asked: GetNextJob) -> Asked:
    types = {*asked.job_types} if asked.job_types else set(TYPES)
    unknown = sorted(types - TYPES)
    if unknown:
        raise InvalidInput(
            f"jobTypes: there is no type {unknown[0]!r} to take; PLAN and EXECUTE are"
        )
    return Asked(
        model=asked.model_id,
        job_type=types.pop() if len(types) == 1 else None,
        lease_seconds=call.house.lease.total_seconds(),
        holder=None if asked.another else call.actor().holder,
    )


async def _run_with_work(call: Call, wanted: Asked) -> str | None:
    (rows,) = await call.read(jobs.run_with_free_job_statement(wanted))
    return str(rows[0][0]) if rows else None


async def _decide(held: HeldRun) -> tuple[RunDecision[NextJob], tuple[Job, ...]]:
    mine, free = (jobs.first_job(rows) for rows in held.found)
    open_jobs: tuple[OpenJobs, ...] = ()
    if mine is None and free is None:
        (rows,) = await held.send(jobs.open_statement(held.run.id, MOST_OPEN))
        open_jobs = jobs.read_open(rows)
    decision = next_job(
        held.run, held.chart, held.moment, held=mine, candidate=free, open_jobs=open_jobs
    )
    return decision, (free,) if free else ()


async def _reply(held: HeldRun, reply: NextJob) -> Body:
    run_id = held.run.id
    match reply:
        case JobReady():
            return await _ready(held, reply)
        case NothingReady():
            return _nothing(reply, held.run)
        case AwaitingFeedback(stages):
            why = "a person looks at the stage; pass on what they say, it opens the next stage"
            args: Body = {"runId": run_id, "stageSlug": stages[0]}
            call = following("submit_stage_feedback", why, **args)
            place = run_url(run_id, held.call.house.base_url)
            return {"status": "awaiting_feedback", **args, "runUrl": place, "next": call}
        case StageFailed(stage, steps):
            why = "give what failed a fresh start, once its cause is gone"
            args = {"runId": run_id, "stageSlug": stage}
            call = following("retry_failed", why, **args)
            failed: Body = {"status": "stage_failed", **args, "failedSteps": [*steps], "next": call}
            look = following("get_run_progress", "all of them", runId=run_id, detail=True)
            return within_reply(failed, ("failedSteps",), look)
        case RunComplete():
            call = following("get_run_progress", "see its documents", runId=run_id)
            usage = held.run.usage.as_told()
            return {"status": "run_complete", "runId": run_id, "usage": usage, "next": call}
        case GivenUp():
            raise AssertionError("nobody is handed a job that was given up")
        case _:
            assert_never(reply)


async def _ready(held: HeldRun, ready: JobReady) -> Body:
    job = ready.job
    step = held.chart.graphs[job.stage].steps[job.step_key]
    args: Body = {"jobId": job.id, "attempt": job.attempt}
    head = told(
        status="job_ready",
        runId=held.run.id,
        runName=held.run.name,
        stageSlug=job.stage,
        stepKey=job.step_key,
        stepName=step.name,
        jobId=job.id,
        jobType=str(job.job_type),
        modelId=job.model,
        attempt=job.attempt,
        leaseSeconds=round(held.call.house.lease.total_seconds()),
        resumed=ready.resumed or None,
        next=following("submit_job_result", "when the job's work is done", **args),
    )
    return {**head, **await packet(held, job, MOST_IN_A_REPLY - len(orjson.dumps(head)))}


def _nothing(nothing: NothingReady, run: Run) -> Body:
    running: list[Json] = [
        told(
            stageSlug=one.stage,
            stepKey=one.step_key,
            status=str(one.status),
            modelId=one.model,
            jobs=one.count,
            readyAt=moment(one.ready_at) if one.status is JobStatus.RETRYING else None,
        )
        for one in nothing.open
    ]
    why = "others still work, or jobs wait for their time or another model; ask again later"
    look = following("get_run_progress", why, runId=run.id)
    counted = sum(one.count for one in nothing.open)
    units = sum(step.total - step.done - step.failed for step in run.steps.values())
    more: Json = {"left": {"jobs": units - counted}, "get": look} if units > counted else None
    body = told(status="nothing_ready", runId=run.id, open=running, cut=more, next=look)
    return within_reply(body, ("open",), look)


async def _nothing_anywhere(call: Call, asked: GetNextJob) -> Body:
    why = "no run has a job for you now; see the runs there are, or start one"
    told_of: Body = {"runId": asked.run_id} if asked.run_id else {}
    body: Body = {
        "status": "nothing_ready",
        **told_of,
        "open": [],
        "next": following("list_dags", why),
    }
    # A repeated call is answered as before, though nothing is left to lock.
    async with call.open() as opened:
        return await opened.write([], body)


TOOL = Tool(
    name="get_next_job",
    title="Take the next job",
    description=(
        "Take a job: prompt, inputs, documents to write. status: job_ready, nothing_ready, "
        "awaiting_feedback, stage_failed or run_complete."
    ),
    arguments=GetNextJob,
    output_schema=output_schema(status="string"),
    run=get_next_job,
    profiles=RUNS,
)
