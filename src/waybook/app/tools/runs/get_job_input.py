"""get_job_input: read more of a job's inputs."""

from collections.abc import Sequence

from pydantic.json_schema import SkipJsonSchema

from waybook.app.context.job import DOCUMENTS, PROMPT, SO_FAR, JobContext, load_job_context
from waybook.app.request import arguments as arg
from waybook.app.request.access import require_job, run_of_job
from waybook.app.request.locks.locked_run import LockedRun
from waybook.app.request.reply import fit_views, next_call
from waybook.app.request.request_context import RequestContext, not_found, uuid_or_nil
from waybook.app.request.tool import RUNS, Tool
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import truncate
from waybook.run.draft import RunDecision
from waybook.run.failure import require_active, require_holder
from waybook.run.model import Job
from waybook.store.driver.queries import Row
from waybook.store.runs import jobs

_MAX_SLICE_BYTES = 40_000


class _GetJobInput(arg.ReadArguments):
    job_id: arg.JobIdField
    document_id: arg.Id | None = arg.optional("id of the input; default: list the inputs")
    document_key: arg.Id | None = arg.optional("key of an input without a documentId")
    stage_slug: arg.StageSlugField | None = arg.optional("stage of the input")
    offset: arg.Offset = arg.optional("continue at this character", default=0)
    # The published schema does not contain `attempt`. The client library passes it with its
    # heartbeats, so that a worker that lost its job does not renew the lease of the new holder.
    attempt: SkipJsonSchema[arg.Attempt | None] = None


@Tool(
    title="Read more of a job's input",
    description="Read an input of your job that was cut. Also renews your hold on the job.",
    reply={"left": "integer"},
    reads_only=True,
    profiles=RUNS,
)
async def get_job_input(ctx: RequestContext, args: _GetJobInput) -> Body:
    """Return a piece of an input of the job, or the list of the job's inputs.

    The call also counts as a heartbeat.
    """
    run_id, job_id = await run_of_job(ctx, args.job_id), args.job_id
    async with LockedRun(
        ctx, run_id, jobs.SQL["load_job"](job_id=job_id), is_locked=False
    ) as locked:
        job = require_job(locked.results[0])
        if args.attempt is not None:
            require_active(locked.run)
            require_holder(job, args.attempt, locked.decision_context.actor)
        body = await _answer(locked, job, args)
        await locked.write(RunDecision(None, locked.run, touched=(job_id,)))
        return body


async def _answer(locked: LockedRun, job: Job, args: _GetJobInput) -> Body:
    if args.document_id is not None:
        statement = jobs.SQL["content"](
            run_id=locked.run.id,
            document_id=uuid_or_nil(args.document_id),
            start=args.offset,
            most=_MAX_SLICE_BYTES,
        )
        (rows,) = await locked.send(statement)
        if not rows:
            claim = NextCall("get_next_job", {}, "Claim a job; its inputs have their ids.")
            raise not_found("document", claim)
        row: Row = rows[0]
        head = non_empty(
            documentKey=row.document_key,
            modelId=row.model,
            version=row.version,
            createdBy=row.by,
            createdAt=format_time(row.at),
        )
        return _piece(head, {"documentId": args.document_id}, row.content, row.length, args)
    context = await load_job_context(locked, job)
    if args.document_key is None:
        inputs = [{**each.header(), "length": each.length} for each in context.inputs]
        return _list("inputs", inputs, {}, args)
    which: Body = {"documentKey": args.document_key}
    if args.document_key == DOCUMENTS:
        return _list("documents", context.required_documents(), which, args)
    if args.stage_slug is not None:
        which["stageSlug"] = args.stage_slug
    text = _text(context, job.id, args.document_key, args.stage_slug)
    return _piece(which, which, text[args.offset :], len(text), args)


def _text(context: JobContext, job_id: str, key: str, stage: str | None) -> str:
    """Return a text of a job: its prompt, its submitted parts, or an input that has no id."""
    if key in {PROMPT, SO_FAR}:
        return context.prompt if key == PROMPT else context.so_far
    outside = [each for each in context.inputs if each.document is None]
    for job_input in outside:
        if job_input.document_key == key and stage in {None, job_input.stage}:
            return job_input.text
    raise NotFound(
        f"this job has no input {key!r}; read a document by its documentId",
        next_call=NextCall("get_job_input", {"jobId": job_id}, "List the inputs of the job."),
        inputs=[{"documentKey": each.document_key, "stageSlug": each.stage} for each in outside],
    )


def _piece(head: Body, which: Body, rest: str, length: int, args: _GetJobInput) -> Body:
    text = truncate(rest, _MAX_SLICE_BYTES)
    upto = args.offset + len(text)
    left = max(0, length - upto)
    return {**head, "content": text, "left": left, "next": _next(args, which, upto, left)}


def _list(name: str, views: Sequence[Json], which: Body, args: _GetJobInput) -> Body:
    listed = fit_views(views[args.offset :], _MAX_SLICE_BYTES)
    upto = args.offset + len(listed)
    left = max(0, len(views) - upto)
    return {name: listed, "left": left, "next": _next(args, which, upto, left)}


def _next(args: _GetJobInput, which: Body, upto: int, left: int) -> Json:
    if left:
        return next_call("get_job_input", "Read on.", jobId=args.job_id, **which, offset=upto)
    return next_call("submit_job_result", "Submit the result.", jobId=args.job_id)
