"""submit_job_result: hand in what a job made."""

import json

from pydantic import Field

from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.run.decision import RunDecision
from waybook.run.model import Chart, Job
from waybook.run.submit import Handed, JobDone, Submission, submit_job
from waybook.store import documents, jobs
from waybook.usecases.arguments import (
    AnyJson,
    Attempt,
    Id,
    Loose,
    Mutating,
    Nested,
    limit_result,
)
from waybook.usecases.asked_usage import UsageArgument, usage_of
from waybook.usecases.call import Body, Call, known
from waybook.usecases.links import run_url
from waybook.usecases.run_call import HeldRun, job_not_found, locked_run, run_of_job
from waybook.usecases.run_views import after_work, awaits_feedback, job_view, stage_view
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, told, within_reply


class HandedIn(Nested):
    content: AnyJson
    document_key: Id | None = None
    model_id: Id | None = None


class SubmitJobResult(Mutating):
    job_id: Id
    attempt: Attempt = Field(description="from get_next_job")
    content: AnyJson = Field(None, description="the document, if the job makes one")
    documents: Loose[list[HandedIn]] | None = None
    continues: bool = Field(default=False, description="more to come: a part")
    usage: UsageArgument = None


async def submit_job_result(call: Call, asked: SubmitJobResult) -> Body:
    """End the job well; close what is closed by it, open what is free."""
    submission = _submission(asked)
    run_id, job_id = await run_of_job(call, asked.job_id), known(asked.job_id).lower()
    async with locked_run(call, run_id, jobs.job_statement(job_id)) as held:
        job = jobs.first_job(held.found[0])
        if job is None:
            raise job_not_found()
        parts, version = await _before(held, job)
        decision = submit_job(
            held.run, held.chart, job, submission, held.moment, parts=parts, version=version
        )
        body = _reply(decision, held.chart, call.house.base_url)
        return await held.write(decision, body, job)


async def _before(held: HeldRun, job: Job) -> tuple[list[str], int]:
    """The parts a job goes on from, and the version of what it makes."""
    parts: list[str] = []
    if job.continues is not None:
        (rows,) = await held.send(jobs.parts_statement(job.id))
        parts = [row[0] for row in rows]
    if job.document is None:
        return parts, 1
    (rows,) = await held.send(documents.document_job_statement(held.run.id, job.document))
    return parts, rows[0][1] + 1


def _submission(asked: SubmitJobResult) -> Submission:
    if (asked.content is None) == (not asked.documents):
        raise InvalidInput("hand in either `content` or `documents`, one of the two")
    handed = asked.documents or [HandedIn(content=asked.content)]
    limit_result(**{f"document {n}": one.content for n, one in enumerate(handed, 1)})
    return Submission(
        documents=tuple(
            Handed(content=_text(one.content), document_key=one.document_key, model=one.model_id)
            for one in handed
        ),
        attempt=asked.attempt,
        continues=asked.continues,
        usage=usage_of(asked.usage),
    )


def _text(content: Json) -> str:
    """A document is a text; a structure is kept as its JSON."""
    if isinstance(content, str):
        return content
    return json.dumps(content, ensure_ascii=False, indent=1)


def _reply(decision: RunDecision[JobDone], chart: Chart, base_url: str) -> Body:
    run, done = decision.run, decision.reply
    waits = awaits_feedback(run, chart, done.job.stage)
    following_job = done.continuation
    body = told(
        runId=run.id,
        **{**job_view(done.job), "jobStatus": str(done.job.status)},
        documentIds=[*done.documents],
        continuation=job_view(following_job) if following_job else None,
        stage=stage_view(run, chart, done.job.stage),
        runComplete=run.completed_at is not None,
        runUrl=run_url(run.id, base_url) if waits else None,
        next=after_work(run, chart, done.job.stage),
    )
    look = following("get_run_progress", "the documents of the run", runId=run.id, detail=True)
    return within_reply(body, ("documentIds",), look)


TOOL = Tool(
    name="submit_job_result",
    title="Submit a job's result",
    description=(
        "Complete a job you hold. continues: a part, the rest becomes a job of its own. "
        "STALE_ATTEMPT: somebody took over; your result is kept, not counted."
    ),
    arguments=SubmitJobResult,
    output_schema=output_schema(runId="string", jobStatus="string"),
    run=submit_job_result,
    profiles=RUNS,
)
