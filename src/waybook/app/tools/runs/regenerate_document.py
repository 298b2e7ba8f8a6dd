"""regenerate_document: create a job that rewrites a document."""

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
from waybook.store.runs import jobs
from waybook.store.runs.rows import DocumentJobRow


class RegenerateDocument(MutatingArguments):
    document_id: Id = Field(description="id of the document")


async def regenerate_document(ctx: RequestContext, args: RegenerateDocument) -> ToolReply:
    """Create a job that writes a document again. The run's progress does not change."""
    document_id = id_or_nil(args.document_id)
    (rows,) = await ctx.read(jobs.run_of_document_statement(document_id))
    run_id = jobs.first_run_id(rows)
    if run_id is None:
        raise _not_found()
    statement = jobs.document_job_statement(run_id, document_id)
    locked = LockedRun(ctx, run_id, statement)

    async def decide() -> RunProposal:
        latest: DocumentJobRow = locked.results[0][0]
        (job_rows,) = await locked.send(jobs.job_statement(latest.job_id))
        job = jobs.read_job(job_rows[0])
        decision = regenerate(
            locked.run, locked.compiled_dag, job, latest.document_id, locked.decision_context
        )
        body: Body = {
            "runId": run_id,
            **job_view(decision.reply.job),
            "next": next_job_call(run_id, "Claim the job that regenerates it."),
        }
        return Proposal(decision, body, jobs=(job,))

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
