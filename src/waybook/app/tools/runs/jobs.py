"""Tools for the holder of a job: read its inputs, submit its result, or report that it failed."""

from collections.abc import Sequence

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.context.job import (
    DOCUMENTS,
    PROMPT,
    SO_FAR,
    JobContext,
    document_text,
    load_job_context,
)
from waybook.app.queries.comments import Subject, comment_view, thread_statements
from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import require_job, run_of_job
from waybook.app.request.caller import run_url
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.plan_arguments import UsageArgument, to_usage
from waybook.app.request.reply import job_view
from waybook.app.request.request_context import RequestContext, ToolReply, not_found, uuid_or_nil
from waybook.app.request.services import Services
from waybook.app.request.tool import RUNS, Tool
from waybook.app.tools.runs.get_next_job import job_request, prepare_claim, take_following_job
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body, Json, format_time, non_empty
from waybook.research.packet import truncate
from waybook.run.failure import fail_job as decide_failure
from waybook.run.failure import require_active, require_holder
from waybook.run.model import MAX_ATTEMPTS, CompiledDag, Job, RunDecision
from waybook.run.submit import JobDone, Submission, SubmittedDocument, submit_job
from waybook.store.driver.queries import first_column
from waybook.store.runs import jobs

_MAX_SLICE_BYTES = 40_000
_MAX_COMMENTS_BYTES = 16_000


class _GetJobInput(arg.ReadArguments):
    job_id: arg.JobIdField
    document_id: arg.Id | None = arg.optional("id of the input; default: list the inputs")
    document_key: arg.Id | None = arg.optional("key of an input without a documentId")
    stage_slug: arg.StageSlugField | None = arg.optional("stage of the input")
    offset: arg.Offset = arg.optional("continue at this character", default=0)
    # The published schema does not contain `attempt`. The client library passes it with its
    # heartbeats, so that an agent that lost its job does not renew the lease of the new holder.
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
    statement = jobs.SQL["load_job"](job_id=job_id)
    async with LockedRun(ctx, run_id, statement, is_locked=False) as locked:
        job = require_job(locked.results[0])
        if args.attempt is not None:
            require_active(locked.run)
            require_holder(job, args.attempt, locked.context.actor)
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
        row = rows[0]
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
        comments = await _open_comments(locked, job)
        return {**_list("inputs", inputs, {}, args), **non_empty(comments=comments or None)}
    which: Body = {"documentKey": args.document_key}
    if args.document_key == DOCUMENTS:
        return _list("documents", context.required_documents(), which, args)
    if args.stage_slug is not None:
        which["stageSlug"] = args.stage_slug
    text = _text(context, job.id, args.document_key, args.stage_slug)
    return _piece(which, which, text[args.offset :], len(text), args)


async def _open_comments(locked: LockedRun, job: Job) -> list[Json]:
    subject = Subject(run_id=locked.run.id, job_id=job.id)
    rows, _ = await locked.send(*thread_statements(subject, only_open=True))
    return replies.fit_views([comment_view(row) for row in rows], _MAX_COMMENTS_BYTES)


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
    return _page({**head, "content": text}, which, len(text), length, args)


def _list(name: str, views: Sequence[Json], which: Body, args: _GetJobInput) -> Body:
    listed = replies.fit_views(views[args.offset :], _MAX_SLICE_BYTES)
    return _page({name: listed}, which, len(listed), len(views), args)


def _page(body: Body, which: Body, shown: int, total: int, args: _GetJobInput) -> Body:
    upto = args.offset + shown
    left, named = max(0, total - upto), Body(jobId=args.job_id)
    following = replies.next_call("submit_job_result", "Submit the result.", **named)
    if left:
        following = replies.next_call("get_job_input", "Read on.", **named, **which, offset=upto)
    return {**body, "left": left, "next": following}


class DocumentArgument(arg.Nested):
    content: arg.AnyJson = Field(description="text or JSON")
    document_key: arg.Id | None = arg.optional("which document of the job")
    model_id: arg.Id | None = arg.optional("model it is for, if the job names several")


class _SubmitJobResult(arg.MutatingArguments):
    job_id: arg.JobIdField
    attempt: arg.Attempt | None = arg.optional("from get_next_job")
    documents: arg.ListOf[DocumentArgument] = Field(
        min_length=1, description="the documents that the job produces"
    )
    continues: bool = arg.optional(
        "true: this is only a part; the rest becomes another job", default=False
    )
    usage: UsageArgument = None
    take_next: bool = arg.optional("also claim the next job for this model", default=False)


@Tool(
    title="Submit a job's result",
    description=(
        "Complete your job; then call get_next_job, or set takeNext to get the next job in the "
        "reply. Error STALE_ATTEMPT: another agent took the job over; your result is stored, but "
        "does not count: call get_next_job."
    ),
    reply={"runId": "string", "jobStatus": "string"},
    profiles=RUNS,
)
async def submit_job_result(ctx: RequestContext, args: _SubmitJobResult) -> ToolReply:
    numbered = enumerate(args.documents, 1)
    arg.check_result_size(**{f"document {n}": document.content for n, document in numbered})
    documents = tuple(
        SubmittedDocument(document_text(sent.content), sent.document_key, sent.model_id)
        for sent in args.documents
    )
    submission = Submission(documents, args.attempt, args.continues, to_usage(args.usage))
    run_id, job_id = await run_of_job(ctx, args.job_id), args.job_id
    locked = LockedRun(ctx, run_id, unless_cached=lambda: (jobs.SQL["load_job"](job_id=job_id),))

    async def decide() -> RunProposal | None:
        if locked.is_cached:
            return await _decide_on_cached(locked, job_id, submission, take_next=args.take_next)
        job = require_job(locked.results[0])
        parts, version = list[str](), 1
        if job.continues is not None:
            (part_rows,) = await locked.send(jobs.SQL["parts"](job_id=job.id))
            parts = first_column(part_rows)
        if job.document is not None:
            statement = jobs.SQL["document_job"](run_id=run_id, document_id=job.document)
            (latest,) = await locked.send(statement)
            version = latest[0].version + 1
        decision = submit_job(
            locked.run, locked.dag, job, submission, locked.context, parts=parts, version=version
        )
        body = _reply(decision, locked.dag, ctx.services)
        proposal = Proposal(decision, body, jobs=(job,))
        if not args.take_next or decision.refusal is not None:
            return proposal
        following = await take_following_job(locked, proposal, job.model)
        return following._replace(body=_with_next(body, following.body))

    return await update(locked, decide)


async def _decide_on_cached(
    locked: LockedRun, job_id: str, submission: Submission, *, take_next: bool
) -> RunProposal | None:
    """Compute the change from the cached run. Return None if the run must be locked first."""
    job, claim = locked.held_job(job_id), None
    if job is None or job.continues is not None or job.document is not None:
        return None
    if take_next:
        claim = await prepare_claim(locked, job_request(locked.ctx, job.model), after=job)
        if claim is None:
            return None
    if not await locked.begin_turn() or locked.held_job(job_id) != job:
        return None
    dag = locked.dag
    decision = submit_job(locked.run, dag, job, submission, locked.context)
    if decision.refusal is not None:
        return None
    body = _reply(decision, dag, locked.ctx.services)
    proposal: RunProposal = Proposal(decision, body, jobs=(job,))
    if claim is None:
        return proposal
    locked.defer(proposal)
    claimed = claim()
    return claimed._replace(body=_with_next(body, claimed.body)) if claimed else None


def _with_next(submitted: Body, following: Body) -> Body:
    left_out = {"runId", "jobStatus", "status", "next"}
    outcome: Json = {name: value for name, value in submitted.items() if name not in left_out}
    kept = {"runId": submitted["runId"], "jobStatus": submitted["jobStatus"]}
    return {**kept, **following, "submitted": outcome}


def _reply(decision: RunDecision[JobDone], compiled_dag: CompiledDag, services: Services) -> Body:
    run, done = decision.run, decision.reply
    waits = replies.awaits_feedback(run, compiled_dag, done.job.stage)
    following_job, following = done.continuation, replies.next_job_call(run.id)
    if run.completed_at is not None:
        why = "The run has ended. See its documents."
        following = replies.next_call("get_run_progress", why, runId=run.id)
    elif waits:
        why = "The stage is complete. Wait: a person reviews it, not you."
        following = replies.wait_for_job_call(run.id, why)
    body = non_empty(
        runId=run.id,
        **{**job_view(done.job), "jobStatus": str(done.job.status)},
        documentIds=[*done.documents],
        continuation=job_view(following_job) if following_job else None,
        stage=replies.stage_view(run, compiled_dag, done.job.stage),
        runComplete=run.completed_at is not None,
        runUrl=run_url(run.id, services.base_url) if waits else None,
        next=following,
    )
    look = replies.next_call(
        "get_run_progress", "See the documents of the run.", runId=run.id, detail=True
    )
    return replies.fit_reply(body, ("documentIds",), look)


class _FailJob(arg.MutatingArguments):
    job_id: arg.JobIdField
    attempt: arg.Attempt | None = arg.optional("from get_next_job")
    error: arg.Text = Field(description="what went wrong")
    retryable: bool = Field(description="true: another attempt may succeed; at most 4 are made")


@Tool(
    title="Fail a job",
    description="Report that you cannot complete your job. Then call get_next_job.",
    reply={"jobId": "string", "status": "string"},
    profiles=RUNS,
)
async def fail_job(ctx: RequestContext, args: _FailJob) -> ToolReply:
    run_id, job_id = await run_of_job(ctx, args.job_id), args.job_id
    locked = LockedRun(ctx, run_id, jobs.SQL["load_job"](job_id=job_id))

    async def decide() -> RunProposal:
        job = require_job(locked.results[0])
        decision = decide_failure(
            locked.run,
            locked.dag,
            job,
            attempt=args.attempt,
            error=args.error,
            retryable=args.retryable,
            context=locked.context,
        )
        failed = decision.reply
        is_retried = failed.completed_at is None
        body = non_empty(
            runId=run_id,
            **job_view(failed),
            attemptsLeft=MAX_ATTEMPTS - failed.tries if is_retried else 0,
            retryAt=format_time(failed.ready_at) if is_retried else None,
            next=replies.next_job_call(run_id, "Claim another job."),
        )
        return Proposal(decision, body, jobs=(job,))

    return await update(locked, decide)
