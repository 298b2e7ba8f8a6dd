"""get_job_input: read more of a job's inputs."""

from collections.abc import Sequence

from pydantic import Field

from waybook.app.context.job import (
    DOCUMENTS,
    PROMPT,
    SO_FAR,
    JobInput,
    JobMaterials,
    fit_views,
    input_header,
    load_job_materials,
    required_documents,
)
from waybook.app.request.arguments import Id, ReadArguments
from waybook.app.request.locking import LockedRun, job_not_found, open_run, run_of_job
from waybook.app.request.lookups import id_or_nil
from waybook.app.request.reply import format_time, next_call, non_empty
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.json_values import Body, Json
from waybook.research.cutting import truncate
from waybook.run.model import Job
from waybook.store.runs import jobs, writer

#: Maximum bytes of a piece.
MAX_SLICE_BYTES = 40_000
#: Beyond the end of any input.
MAX_OFFSET = 1_000_000_000


class GetJobInput(ReadArguments):
    job_id: Id
    document_id: Id | None = None
    document_key: Id | None = Field(None, description="of an input without a documentId")
    stage_slug: Id | None = None
    offset: int = Field(0, ge=0, le=MAX_OFFSET)


async def get_job_input(ctx: RequestContext, asked: GetJobInput) -> Body:
    """Return a piece of an input, or the list of inputs.

    The call is a heartbeat: an agent that reads the inputs of a job is working on it.
    """
    run_id, job_id = await run_of_job(ctx, asked.job_id), id_or_nil(asked.job_id).lower()
    async with open_run(ctx, run_id, jobs.job_statement(job_id)) as locked:
        job = jobs.first_job(locked.results[0])
        if job is None:
            raise job_not_found()
        body = await _answer(locked, job, asked)
        await locked.tx.commit(writer.touch(job_id, locked.loaded.now))
        return body


async def _answer(locked: LockedRun, job: Job, asked: GetJobInput) -> Body:
    if asked.document_id is not None:
        return await _document(locked, asked.document_id, asked)
    desk = await load_job_materials(locked, job)
    if asked.document_key is None:
        inputs = [{**input_header(one), "length": one.length} for one in desk.inputs]
        return _list("inputs", inputs, {}, asked)
    if asked.document_key == DOCUMENTS:
        named: Body = {"documentKey": DOCUMENTS}
        return _list("documents", required_documents(locked, job), named, asked)
    which: Body = {"documentKey": asked.document_key}
    if asked.stage_slug is not None:
        which["stageSlug"] = asked.stage_slug
    text = _text(desk, asked.document_key, asked.stage_slug)
    return _piece(which, which, text[asked.offset :], len(text), asked)


async def _document(locked: LockedRun, document_id: str, asked: GetJobInput) -> Body:
    statement = jobs.content_statement(
        locked.run.id, id_or_nil(document_id), asked.offset, MAX_SLICE_BYTES
    )
    (found,) = await locked.send(statement)
    if not found:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("get_next_job", {}, "take a job; its inputs have their ids"),
        )
    key, model, version, length, text, by, at = found[0]
    head = non_empty(
        documentKey=key, modelId=model, version=version, createdBy=by, createdAt=format_time(at)
    )
    return _piece(head, {"documentId": document_id}, text, length, asked)


def _text(desk: JobMaterials, key: str, stage: str | None) -> str:
    """Return a text that is no document of the run: prompt, submitted parts, external input."""
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


def _told(one: JobInput) -> Json:
    return {"documentKey": one.document_key, "stageSlug": one.stage}


def _piece(head: Body, which: Body, rest: str, length: int, asked: GetJobInput) -> Body:
    text = truncate(rest, MAX_SLICE_BYTES)
    upto = asked.offset + len(text)
    left = max(0, length - upto)
    return {**head, "content": text, "left": left, "next": _next(asked, which, upto, left)}


def _list(name: str, views: Sequence[Json], which: Body, asked: GetJobInput) -> Body:
    """Return these views, starting at an offset."""
    listed = fit_views(views[asked.offset :], MAX_SLICE_BYTES)
    upto = asked.offset + len(listed)
    left = max(0, len(views) - upto)
    return {name: listed, "left": left, "next": _next(asked, which, upto, left)}


def _next(asked: GetJobInput, which: Body, upto: int, left: int) -> Json:
    if left:
        return next_call("get_job_input", "read on", jobId=asked.job_id, **which, offset=upto)
    return next_call("submit_job_result", "when the job's work is done", jobId=asked.job_id)


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
