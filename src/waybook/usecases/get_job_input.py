"""get_job_input: read on in what a job works from."""

from collections.abc import Sequence

from pydantic import Field

from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.record.moment import Json
from waybook.research.cutting import beginning
from waybook.run.model import Job
from waybook.store import documents, jobs, run_ledger
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, known
from waybook.usecases.job_inputs import Desk, Supplied, desk_of
from waybook.usecases.job_packet import (
    DOCUMENTS,
    PROMPT,
    SO_FAR,
    first_of,
    name_of,
    wanted_documents,
)
from waybook.usecases.run_call import HeldRun, job_not_found, opened_run, run_of_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, moment, told

#: What a piece may take, in bytes.
MOST = 40_000
#: Further on there is nothing.
FARTHEST = 1_000_000_000


class GetJobInput(Reading):
    job_id: Id
    document_id: Id | None = None
    document_key: Id | None = Field(None, description="of an input without a documentId")
    stage_slug: Id | None = None
    offset: int = Field(0, ge=0, le=FARTHEST)


async def get_job_input(call: Call, asked: GetJobInput) -> Body:
    """A piece of an input, or the list of them. A sign of life: who reads for a job works on it."""
    run_id, job_id = await run_of_job(call, asked.job_id), known(asked.job_id).lower()
    async with opened_run(call, run_id, jobs.job_statement(job_id)) as held:
        job = jobs.first_job(held.found[0])
        if job is None:
            raise job_not_found()
        body = await _answer(held, job, asked)
        await held.tx.commit(run_ledger.touch(job_id, held.loaded.now))
        return body


async def _answer(held: HeldRun, job: Job, asked: GetJobInput) -> Body:
    if asked.document_id is not None:
        return await _document(held, asked.document_id, asked)
    desk = await desk_of(held, job)
    if asked.document_key is None:
        inputs = [{**name_of(one), "length": one.length} for one in desk.inputs]
        return _list("inputs", inputs, {}, asked)
    if asked.document_key == DOCUMENTS:
        named: Body = {"documentKey": DOCUMENTS}
        return _list("documents", wanted_documents(held, job), named, asked)
    which: Body = {"documentKey": asked.document_key}
    if asked.stage_slug is not None:
        which["stageSlug"] = asked.stage_slug
    text = _text(desk, asked.document_key, asked.stage_slug)
    return _piece(which, which, text[asked.offset :], len(text), asked)


async def _document(held: HeldRun, document_id: str, asked: GetJobInput) -> Body:
    statement = documents.content_statement(held.run.id, known(document_id), asked.offset, MOST)
    (found,) = await held.send(statement)
    if not found:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("get_next_job", {}, "take a job; its inputs have their ids"),
        )
    key, model, version, length, text, by, at = found[0]
    head = told(documentKey=key, modelId=model, version=version, createdBy=by, createdAt=moment(at))
    return _piece(head, {"documentId": document_id}, text, length, asked)


def _text(desk: Desk, key: str, stage: str | None) -> str:
    """What is no document of the run: the prompt, what was handed in, or a text from outside."""
    if key in {PROMPT, SO_FAR}:
        return desk.prompt if key == PROMPT else desk.so_far
    outside = [one for one in desk.inputs if one.document is None]
    found = [one for one in outside if one.document_key == key and stage in {None, one.stage}]
    if not found:
        there = [_told(one) for one in outside]
        raise InvalidInput(
            f"this job has no input {key!r} from outside; documents are named by their documentId",
            inputs=there,
        )
    return found[0].text


def _told(one: Supplied) -> Json:
    return {"documentKey": one.document_key, "stageSlug": one.stage}


def _piece(head: Body, which: Body, rest: str, length: int, asked: GetJobInput) -> Body:
    text = beginning(rest, MOST)
    upto = asked.offset + len(text)
    left = max(0, length - upto)
    return {**head, "content": text, "left": left, "next": _next(asked, which, upto, left)}


def _list(name: str, views: Sequence[Json], which: Body, asked: GetJobInput) -> Body:
    """These from one on."""
    listed = first_of(views[asked.offset :], MOST)
    upto = asked.offset + len(listed)
    left = max(0, len(views) - upto)
    return {name: listed, "left": left, "next": _next(asked, which, upto, left)}


def _next(asked: GetJobInput, which: Body, upto: int, left: int) -> Json:
    if left:
        return following("get_job_input", "read on", jobId=asked.job_id, **which, offset=upto)
    return following("submit_job_result", "when the job's work is done", jobId=asked.job_id)


TOOL = Tool(
    name="get_job_input",
    title="Read on in a job's input",
    description="The rest of an input that was cut; without one, their list. Keeps the job yours.",
    arguments=GetJobInput,
    output_schema=output_schema(left="integer"),
    run=get_job_input,
    reads_only=True,
    profiles=RUNS,
)
