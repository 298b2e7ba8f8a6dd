"""regenerate_document: have a document written anew."""

from waybook.errors import NextCall, NotFound
from waybook.run.retry import regenerate
from waybook.store import documents, jobs
from waybook.usecases.arguments import Id, Mutating
from waybook.usecases.call import Body, Call, known
from waybook.usecases.run_call import locked_run
from waybook.usecases.run_views import job_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool


class RegenerateDocument(Mutating):
    document_id: Id


async def regenerate_document(call: Call, asked: RegenerateDocument) -> Body:
    """Make a new job for a document; progress stays as it is."""
    document_id = known(asked.document_id)
    (rows,) = await call.read(documents.run_of_document_statement(document_id))
    if not rows:
        raise _not_found()
    run_id = str(rows[0][0])
    statement = documents.document_job_statement(run_id, document_id)
    async with locked_run(call, run_id, statement) as held:
        job_id, _, latest = held.found[0][0]
        (found,) = await held.send(jobs.job_statement(job_id))
        job = jobs.read_job(found[0])
        decision = regenerate(held.run, held.chart, job, latest, held.moment)
        body: Body = {
            "runId": run_id,
            **job_view(decision.reply.job),
            "next": take_job(run_id, "take the job that writes it anew"),
        }
        return await held.write(decision, body, job)


def _not_found() -> NotFound:
    return NotFound(
        "there is no document with this id here",
        next_call=NextCall("list_dags", {}, "see the DAGs and the runs there are"),
    )


TOOL = Tool(
    name="regenerate_document",
    title="Have a document written anew",
    description="A new job for a document that is done; its result is a new version of it.",
    arguments=RegenerateDocument,
    output_schema=output_schema(jobId="string"),
    run=regenerate_document,
    profiles=RUNS,
)
