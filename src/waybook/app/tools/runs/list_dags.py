"""list_dags: the available workflows, and the open runs."""

from waybook.app.queries.runs.run_list import (
    OPEN,
    RunFilter,
    RunSummary,
    page_statement,
    read_run_summaries,
)
from waybook.app.request.arguments import ReadArguments
from waybook.app.request.definition_cache import DefinitionCache, builtin_dags
from waybook.app.request.reply import fit_reply, next_call
from waybook.app.request.request_context import RequestContext
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.dag.model import Dag
from waybook.json_values import Body, Json, format_time
from waybook.research.cutting import truncate
from waybook.run.model import CompiledDag
from waybook.store.runs import load
from waybook.store.runs.rows import DefinitionRow

MAX_RUNS = 50
MAX_DESCRIPTION_BYTES = 600


class ListDags(ReadArguments):
    pass


async def list_dags(ctx: RequestContext, _: ListDags) -> Body:
    """Return every workflow definition in its latest version, and the open runs."""
    open_runs = page_statement(RunFilter(state=OPEN), MAX_RUNS)
    stored, run_rows = await ctx.read(load.definitions_statement(), open_runs)
    charts = {**builtin_dags(), **{row.slug: _chart(ctx, row) for row in stored}}
    body: Body = {
        "dags": [_view(charts[slug]) for slug in sorted(charts)],
        "openRuns": [_run_view(run) for run in await read_run_summaries(ctx, run_rows)],
        "next": next_call("start_run", "Start a run of one of the workflows."),
    }
    detail_call = next_call("get_dag_map", "Get one complete definition.")
    return fit_reply(body, ("openRuns", "dags"), detail_call)


def _chart(ctx: RequestContext, row: DefinitionRow) -> CompiledDag:
    cache = ctx.services.shared(DefinitionCache)
    return cache.current(ctx.caller.org_id, row.slug, [row]).compiled_dag


def _view(compiled_dag: CompiledDag) -> Body:
    dag: Dag = compiled_dag.dag
    stages: list[Json] = [
        {
            "stageSlug": slug,
            "name": compiled_dag.stages[slug].name,
            "steps": len(compiled_dag.graphs[slug].order),
        }
        for slug in compiled_dag.order
    ]
    return {
        "dagSlug": dag.slug,
        "name": dag.name,
        "version": compiled_dag.version,
        "description": truncate(dag.description, MAX_DESCRIPTION_BYTES),
        "stages": stages,
    }


def _run_view(run: RunSummary) -> Body:
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": run.compiled_dag.dag.slug,
        "version": run.compiled_dag.version,
        "currentStage": run.current.slug if run.current else None,
        "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
        "completedSteps": run.steps_done,
        "totalSteps": run.steps_total,
        "failedSteps": run.steps_failed,
        "createdAt": format_time(run.created_at),
        "createdBy": run.created_by,
        "updatedAt": format_time(run.updated_at),
    }


TOOL = Tool(
    name="list_dags",
    title="List prepared workflows",
    description=(
        "List the prepared workflows (DAGs) and the open runs. Then start_run or get_next_job."
    ),
    arguments=ListDags,
    output_schema=output_schema(dags="array"),
    run=list_dags,
    reads_only=True,
    profiles=RUNS,
)
