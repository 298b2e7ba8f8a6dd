"""copy_run: create a run from another one, with the documents of its earlier stages."""

from pydantic import Field

from waybook.app.request.arguments import (
    LenientJson,
    Models,
    MutatingArguments,
    Name,
    RunIdField,
    StageSlugField,
)
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.run_access import load_run
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.app.tools.runs.start_run import started_run_proposal
from waybook.run.copy import CopiedRun
from waybook.run.copy import copy_run as decide_copy
from waybook.store.driver.queries import new_id
from waybook.store.runs import jobs, load


class CopyRun(MutatingArguments):
    run_id: RunIdField = Field(description="the run to copy")
    from_stage: StageSlugField = Field(description="stage at which the copy starts again")
    name: Name | None = Field(default=None, description="name of the copy")
    models: LenientJson[Models] | None = Field(
        default=None, description="model names; default: those of the stage"
    )


async def copy_run(ctx: RequestContext, args: CopyRun) -> ToolReply:
    """Create a copy of a run, with the documents of all stages before the one to start."""
    run_id = id_or_nil(args.run_id)
    originals = jobs.originals_statements(run_id)
    seen = await load_run(ctx, run_id, load.brief_statement(run_id), *originals)
    brief, finished, documents = seen.results
    source = CopiedRun(
        run=seen.loaded.run,
        input=brief[0].input,
        jobs=[jobs.read_job(row) for row in finished],
        documents=jobs.read_originals(documents),
    )
    opened = OpenTransaction(ctx)

    async def decide() -> Proposal[Written]:
        named = (new_id(), args.from_stage, opened.decision_context)
        dag = seen.compiled_dag
        decision = decide_copy(source, dag, *named, name=args.name, models=args.models)
        return started_run_proposal(opened, decision, dag, [])

    return await update(opened, decide)


TOOL = Tool(
    name="copy_run",
    title="Copy a run",
    description=(
        "Copy a run to repeat it from one stage on; the documents of earlier stages are kept. "
        "Then call get_next_job."
    ),
    arguments=CopyRun,
    output_schema=output_schema(runId="string"),
    run=copy_run,
    profiles=RUNS,
)
