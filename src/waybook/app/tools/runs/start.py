"""Tools that start, copy and cancel runs, start stages, and store feedback on stages.

Other tools in this module retry failed jobs and regenerate documents.
"""

from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from waybook.app.request import arguments as arg
from waybook.app.request import reply as replies
from waybook.app.request.access import load_run
from waybook.app.request.definition_cache import (
    BUILTIN_AUTHOR,
    DefinitionCache,
    definition_statement,
)
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import (
    OpenTransaction,
    Proposal,
    Written,
    notification_statements,
    update,
)
from waybook.app.request.reply import fit_reply, next_call, next_job_call, started_view
from waybook.app.request.request_context import (
    LIST_WORKFLOWS,
    RequestContext,
    ToolReply,
    not_found,
    uuid_or_nil,
)
from waybook.app.request.tool import RUNS, Tool
from waybook.core.decision_context import Scope
from waybook.core.events import RUN, ChangeEvent
from waybook.json_values import Body, non_empty
from waybook.run.copy import CopiedRun
from waybook.run.copy import copy_run as decide_copy
from waybook.run.failure import cancel_run as decide_cancellation
from waybook.run.failure import regenerate
from waybook.run.failure import retry_failed as decide_retry
from waybook.run.made_from import jobs_after
from waybook.run.model import CompiledDag, Job, RunDecision, StageRun
from waybook.run.start import give_feedback, new_run, start_open_stage
from waybook.run.status import run_notifications, run_state
from waybook.store.accounts import accounts
from waybook.store.driver.queries import Statement, new_id
from waybook.store.runs import jobs, load, writer


class _StartRun(arg.MutatingArguments):
    dag_slug: arg.Id = Field(description="slug of the workflow, from list_dags")
    name: arg.Name = Field(description="short name")
    input: arg.SomeJson = Field(
        description="subject of the run: a text, or JSON with texts by document key"
    )
    models: arg.Models = Field(description="model names; each job is for one of them")


@Tool(
    title="Start a run",
    description="Start a run of a workflow (DAG). Then claim jobs with get_next_job.",
    reply={"runId": "string"},
    profiles=RUNS,
)
async def start_run(ctx: RequestContext, args: _StartRun) -> ToolReply:
    arg.check_result_size(input=args.input)
    opened = OpenTransaction(ctx, load.SQL["definition"](slug=args.dag_slug, version=None))

    async def decide() -> Proposal[Written]:
        rows, cache = opened.results[0], ctx.services.shared(DefinitionCache)
        compiled_dag = cache.current(ctx.caller.org_id, args.dag_slug, rows)
        made: list[Statement] = []
        if not rows or rows[0].version != compiled_dag.version:
            dag, version = compiled_dag.dag, compiled_dag.version
            made.append(definition_statement(dag, version, opened.now, BUILTIN_AUTHOR))
        context = opened.context
        decision = new_run(compiled_dag, new_id(), args.name, args.input, args.models, context)
        return _started_run_proposal(opened, decision, compiled_dag, made)

    return await update(opened, decide)


def _started_run_proposal(
    opened: OpenTransaction,
    decision: RunDecision[tuple[StageRun, ...]],
    compiled_dag: CompiledDag,
    made: list[Statement],
) -> Proposal[Written]:
    ctx, write_context, run = opened.ctx, opened.write_context, decision.run

    def remember() -> None:
        if any(job.unit is None for job in decision.jobs.values()):
            ctx.services.render_requested.add(ctx.caller.org_id)

    written = Written(
        [*made, *writer.statements(None, [writer.seal_decision(decision, {}, write_context)])],
        notification_statements(ctx, run_notifications(None, run, compiled_dag), write_context),
        ChangeEvent(RUN, run.id, len(decision.entries), list_changed=True),
        remember,
    )
    body: Body = {
        "runId": run.id,
        "name": run.name,
        "dagSlug": compiled_dag.dag.slug,
        "version": compiled_dag.version,
        **non_empty(copiedFrom=replies.origin_view(run)),
        "stages": [started_view(stage, run) for stage in decision.reply],
        "next": next_job_call(run.id, "Claim the first job."),
    }
    look = next_call("get_run_progress", "See everything that was started.", runId=run.id)
    return Proposal(written, fit_reply(body, ("stages",), look))


class _CopyRun(arg.MutatingArguments):
    run_id: arg.RunIdField = Field(description="the run to copy")
    from_stage: arg.StageSlugField = Field(description="stage at which the copy starts again")
    name: arg.Name | None = arg.optional("name of the copy")
    models: arg.Models | None = arg.optional("model names; default: those of the stage")


@Tool(
    title="Copy a run",
    description=(
        "Copy a run to repeat it from one stage on; the documents of earlier stages are kept. "
        "Then call get_next_job."
    ),
    reply={"runId": "string"},
    profiles=RUNS,
)
async def copy_run(ctx: RequestContext, args: _CopyRun) -> ToolReply:
    run_id = args.run_id
    finished_jobs = jobs.SQL["finished_jobs"](run_id=run_id)
    original_documents = jobs.SQL["original_documents"](run_id=run_id)
    brief_statement = load.SQL["run_brief"](run_id=run_id)
    loaded, dag, results = await load_run(
        ctx, run_id, brief_statement, finished_jobs, original_documents
    )
    brief, finished, documents = results
    source = CopiedRun(
        run=loaded.run,
        input=brief[0].input,
        jobs=[jobs.read_job(row) for row in finished],
        documents=documents,
    )
    opened = OpenTransaction(ctx)

    async def decide() -> Proposal[Written]:
        named = (new_id(), args.from_stage, opened.context)
        decision = decide_copy(source, dag, *named, name=args.name, models=args.models)
        return _started_run_proposal(opened, decision, dag, [])

    return await update(opened, decide)


class _StartStage(arg.MutatingArguments):
    run_id: arg.RunIdField
    stage_slug: arg.StageSlugField
    models: arg.Models | None = arg.optional("model names; default: those of the previous stage")


@Tool(
    title="Start a stage",
    description="Start a stage that is ready. submit_stage_feedback usually does that by itself.",
    reply={"runId": "string", "status": "string"},
    idempotent=True,
    profiles=RUNS,
)
async def start_stage(ctx: RequestContext, args: _StartStage) -> ToolReply:
    """Start a stage. If the stage was already started, nothing changes."""
    locked = LockedRun(ctx, args.run_id)

    async def decide() -> RunProposal:
        decision = start_open_stage(
            locked.run, locked.dag, args.stage_slug, args.models, locked.context
        )
        run = decision.run
        body: Body = {
            "runId": run.id,
            **replies.stage_view(run, locked.dag, args.stage_slug),
            "started": [started_view(stage, run) for stage in decision.reply],
            "next": next_job_call(run.id),
        }
        look = next_call("get_run_progress", "See everything that was started.", runId=run.id)
        return Proposal(decision, fit_reply(body, ("started",), look))

    return await update(locked, decide)


class _SubmitStageFeedback(arg.MutatingArguments):
    run_id: arg.RunIdField
    stage_slug: arg.StageSlugField
    feedback: arg.Text = Field(description="the person's words")
    models: arg.Models | None = arg.optional("model names for the next stage")
    place: SkipJsonSchema[Literal["app"] | None] = None


@Tool(
    title="Give feedback on a stage",
    description=(
        "Pass on a person's feedback on a completed stage, which starts the next stage. Then call "
        "get_next_job."
    ),
    reply={"runId": "string", "started": "array"},
    profiles=RUNS,
    scopes=frozenset({Scope.RUN_WRITE, Scope.REVIEW}),
)
async def submit_stage_feedback(ctx: RequestContext, args: _SubmitStageFeedback) -> ToolReply:
    locked = LockedRun(ctx, args.run_id, accounts.SQL["review_policy"]())

    async def decide() -> RunProposal:
        decision = give_feedback(
            locked.run,
            locked.dag,
            args.stage_slug,
            args.feedback,
            args.models,
            locked.context._replace(policy=accounts.read_policy(locked.results[-1])),
            place=args.place,
        )
        run = decision.run
        over = next_call("get_run_progress", "See the run's progress.", runId=run.id)
        body: Body = {
            "runId": run.id,
            "stageSlug": args.stage_slug,
            "started": [started_view(stage, run) for stage in decision.reply],
            "next": next_job_call(run.id) if decision.reply else over,
        }
        return Proposal(decision, fit_reply(body, ("started",), over))

    return await update(locked, decide)


class _RetryFailed(arg.MutatingArguments):
    run_id: arg.RunIdField
    stage_slug: arg.StageSlugField
    step_key: arg.Id | None = arg.optional("only jobs of this step")


@Tool(
    title="Retry failed jobs",
    description="Retry the failed jobs of a stage or of one step. Then call get_next_job.",
    reply={"retried": "integer"},
    idempotent=True,
    profiles=RUNS,
)
async def retry_failed(ctx: RequestContext, args: _RetryFailed) -> ToolReply:
    statement = jobs.SQL["failed_jobs"](
        run_id=args.run_id, stage=args.stage_slug, step_key=args.step_key
    )
    locked = LockedRun(ctx, args.run_id, statement)

    async def decide() -> RunProposal:
        failed = [jobs.read_job(row) for row in locked.results[0]]
        named = (locked.run, locked.dag, args.stage_slug)
        decision = decide_retry(*named, failed, locked.context, step_key=args.step_key)
        run = decision.run
        body: Body = {
            "runId": run.id,
            "retried": len(decision.reply),
            **replies.stage_view(run, locked.dag, args.stage_slug),
            "next": next_job_call(run.id),
        }
        return Proposal(decision, body, jobs=failed)

    return await update(locked, decide)


class _RegenerateDocument(arg.MutatingArguments):
    document_id: arg.Id = Field(description="resourceId from get_run_progress, or documentId")
    following: bool = arg.optional(
        "also regenerate all documents made from it, in order", default=False
    )


@Tool(
    title="Regenerate a document",
    description="Create a job that writes a new version of a document. Then call get_next_job.",
    reply={"jobId": "string"},
    profiles=RUNS,
)
async def regenerate_document(ctx: RequestContext, args: _RegenerateDocument) -> ToolReply:
    (rows,) = await ctx.read(jobs.SQL["run_of_document"](document_id=uuid_or_nil(args.document_id)))
    if not rows:
        raise not_found("document", LIST_WORKFLOWS)
    run_id, document_id = rows[0].run_id, rows[0].document_id
    later = (
        jobs.SQL["versions"](run_id=run_id, always=True),
        jobs.SQL["finished_jobs"](run_id=run_id),
    )
    statement = jobs.SQL["document_job"](run_id=run_id, document_id=document_id)
    locked = LockedRun(ctx, run_id, statement, *(later if args.following else ()))

    async def decide() -> RunProposal:
        latest = locked.results[0][0]
        (job_rows,) = await locked.send(jobs.SQL["load_job"](job_id=latest.job_id))
        job, dag = jobs.read_job(job_rows[0]), locked.dag
        following: list[tuple[Job, str]] = []
        if args.following:
            version_rows, finished_rows = locked.results[1:]
            by_id = {row.id: jobs.read_job(row) for row in finished_rows}
            versions = jobs.read_versions(version_rows)
            after = jobs_after(dag, versions, job.id)
            following = [(by_id[old], made) for old, made in after.items() if old in by_id]
        decision = regenerate(
            locked.run, dag, job, latest.document_id, locked.context, following=following
        )
        body: Body = {
            "runId": run_id,
            **replies.job_view(decision.reply[0]),
            **({"following": decision.reply[1]} if args.following else {}),
            "next": next_job_call(run_id, "Claim the job that regenerates it."),
        }
        return Proposal(decision, body, jobs=(job, *(old for old, _ in following)))

    return await update(locked, decide)


class _CancelRun(arg.MutatingArguments):
    run_id: arg.RunIdField
    reason: arg.Text = Field(description="why it ends; recorded in the audit")


@Tool(
    title="Cancel a run",
    description=(
        "End a run for good. Nothing is deleted; its open jobs are no longer handed out, and "
        "results of jobs still held are refused with RUN_CANCELED. Cannot be undone."
    ),
    reply={"runId": "string", "status": "string"},
    destructive=True,
    profiles=RUNS,
)
async def cancel_run(ctx: RequestContext, args: _CancelRun) -> ToolReply:
    locked = LockedRun(ctx, args.run_id)

    async def decide() -> RunProposal:
        decision = decide_cancellation(locked.run, locked.dag, args.reason, locked.context)
        run = decision.run
        body: Body = {
            "runId": run.id,
            "status": str(run_state(run, locked.dag)),
            **replies.cancellation_view(run),
            "openJobs": decision.reply,
            "next": next_call("get_run_progress", "See what the run produced.", runId=run.id),
        }
        return Proposal(decision, body)

    return await update(locked, decide)
