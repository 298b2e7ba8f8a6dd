"""regenerate_document: create a job that rewrites a document."""

from collections.abc import Sequence

from pydantic import Field

from waybook.app.request.arguments import Id, MutatingArguments
from waybook.app.request.locks.locked_run import LockedRun, RunProposal
from waybook.app.request.locks.locking import Proposal, update
from waybook.app.request.reply import job_view, next_job_call
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.errors import NextCall, NotFound
from waybook.json_values import Body
from waybook.run.failure import regenerate
from waybook.run.made_from import jobs_after
from waybook.run.model import Job
from waybook.store.runs import jobs
from waybook.store.runs.rows import DocumentJobRow, DocumentRunRow


class RegenerateDocument(MutatingArguments):
    document_id: Id = Field(description="resourceId from get_run_progress, or documentId")
    following: bool = Field(
        default=False, description="also regenerate all documents made from it, in order"
    )


async def regenerate_document(ctx: RequestContext, args: RegenerateDocument) -> ToolReply:
    """Create a job that writes a document again. The run's progress does not change."""
    rows: Sequence[DocumentRunRow]
    (rows,) = await ctx.read(jobs.run_of_document_statement(id_or_nil(args.document_id)))
    if not rows:
        raise _not_found()
    run_id, document_id = rows[0].run_id, rows[0].document_id
    later = jobs.versions_statement(run_id, always=True), jobs.finished_jobs_statement(run_id)
    statement = jobs.document_job_statement(run_id, document_id)
    locked = LockedRun(ctx, run_id, statement, *(later if args.following else ()))

    async def decide() -> RunProposal:
        latest: DocumentJobRow = locked.results[0][0]
        (job_rows,) = await locked.send(jobs.job_statement(latest.job_id))
        job, dag = jobs.read_job(job_rows[0]), locked.compiled_dag
        following: list[tuple[Job, str]] = []
        if args.following:
            version_rows, finished_rows = locked.results[1:]
            by_id = {row.id: jobs.read_job(row) for row in finished_rows}
            versions = jobs.read_versions(version_rows)
            after = jobs_after(dag, versions, job.id)
            following = [(by_id[old], made) for old, made in after.items() if old in by_id]
        decision = regenerate(
            locked.run,
            dag,
            job,
            latest.document_id,
            locked.decision_context,
            following=following,
        )
        body: Body = {
            "runId": run_id,
            **job_view(decision.reply.job),
            **({"following": decision.reply.following} if args.following else {}),
            "next": next_job_call(run_id, "Claim the job that regenerates it."),
        }
        return Proposal(decision, body, jobs=(job, *(old for old, _ in following)))

    return await update(locked, decide)


def _not_found() -> NotFound:
    return NotFound(
        "there is no document with this id here",
        next_call=NextCall("list_dags", {}, "List the workflows and runs."),
    )


TOOL = Tool(
    name="regenerate_document",
    title="Regenerate a document",
    description="Create a job that writes a new version of a document. Then call get_next_job.",
    arguments=RegenerateDocument,
    output_schema=output_schema(jobId="string"),
    run=regenerate_document,
    profiles=RUNS,
)
