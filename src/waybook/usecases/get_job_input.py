"""get_job_input: read on in what a job works from."""

from pydantic import Field

from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.store import documents, jobs, run_ledger, runs
from waybook.usecases.arguments import Id, Reading
from waybook.usecases.call import Body, Call, known
from waybook.usecases.job_packet import outside
from waybook.usecases.run_call import HeldRun, job_not_found, locked_run, run_of_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, told

MOST = 40_000


class GetJobInput(Reading):
    job_id: Id
    document_id: Id | None = None
    document_key: Id | None = Field(None, description="of an input without a documentId")
    offset: int = Field(0, ge=0)


async def get_job_input(call: Call, asked: GetJobInput) -> Body:
    """A piece of an input. A sign of life: whoever reads for a job is working on it."""
    run_id, job_id = await run_of_job(call, asked.job_id), known(asked.job_id).lower()
    document_id = known(asked.document_id or "")
    async with locked_run(
        call,
        run_id,
        jobs.job_statement(job_id),
        documents.content_statement(run_id, document_id, asked.offset, MOST),
        runs.brief_statement(run_id),
    ) as held:
        if jobs.first_job(held.found[0]) is None:
            raise job_not_found()
        body = _piece(held, asked)
        await held.tx.commit(run_ledger.touch(job_id, held.loaded.now))
        return body


def _piece(held: HeldRun, asked: GetJobInput) -> Body:
    _, found, brief = held.found
    if found:
        key, model, version, length, text = found[0]
        which: Body = {"documentId": asked.document_id}
        head = told(documentKey=key, modelId=model, version=version)
    elif asked.document_key is not None:
        whole = _outside(held, asked.document_key, brief[0][0])
        length, text = len(whole), whole[asked.offset : asked.offset + MOST]
        which = head = {"documentKey": asked.document_key}
    elif asked.document_id is None:
        raise InvalidInput("name the input: its documentId, or its documentKey if it has none")
    else:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("get_next_job", {}, "take a job; its inputs have their ids"),
        )
    left = length - asked.offset - len(text)
    more = following(
        "get_job_input", "read on", jobId=asked.job_id, **which, offset=asked.offset + len(text)
    )
    done = following("submit_job_result", "when the job's work is done", jobId=asked.job_id)
    return {**head, "content": text, "left": max(0, left), "next": more if left > 0 else done}


def _outside(held: HeldRun, key: str, run_input: object) -> str:
    stages = [outside(held, key, slug, run_input) for slug in held.run.stages]  # type: ignore[arg-type]  # JSON
    return "\n\n".join(dict.fromkeys(text for text in stages if text))


TOOL = Tool(
    name="get_job_input",
    title="Read on in a job's input",
    description="The rest of an input that was cut. Keeps the job yours.",
    arguments=GetJobInput,
    output_schema=output_schema(content="string", left="integer"),
    run=get_job_input,
    reads_only=True,
    profiles=RUNS,
)
