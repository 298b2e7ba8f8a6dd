"""Tools that list the workflows and the open runs, and add a workflow definition."""

from collections.abc import Sequence
from typing import Final

import orjson
from pydantic import Field

from waybook.app.queries.runs.workflows import current_workflows, workflow_view
from waybook.app.queries.work_list import (
    OPEN,
    RunFilter,
    read_run_summaries,
    runs_statement,
)
from waybook.app.request.arguments import AnyJson, MutatingArguments, ReadArguments
from waybook.app.request.caller import WORKFLOW_SCHEMA_URI
from waybook.app.request.definition_cache import (
    compile_definition,
    definition_body,
    definition_hash,
    definition_statement,
)
from waybook.app.request.layout_worker import LayoutWorker
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.reply import fit_reply, next_call
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import ADMIN, RUNS, Tool
from waybook.core.decision_context import Scope
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import BadRecipe
from waybook.json_values import Body, format_time
from waybook.run.model import CompiledDag
from waybook.run.stages import require_runnable
from waybook.store.driver.queries import new_id
from waybook.store.runs import load
from waybook.store.runs.rows import DefinitionRow

_MAX_RUNS = 50


class _ListDags(ReadArguments):
    pass


@Tool(
    title="List prepared workflows",
    description=(
        "List the prepared workflows (DAGs) and the open runs. Then start_run or get_next_job."
    ),
    reply={"dags": "array"},
    reads_only=True,
    profiles=RUNS,
)
async def list_dags(ctx: RequestContext, _: _ListDags) -> Body:
    open_runs = runs_statement(RunFilter(state=OPEN), _MAX_RUNS)
    stored, run_rows = await ctx.read(load.SQL["definitions"](), open_runs)
    body: Body = {
        "dags": [
            workflow_view(workflow.compiled_dag) for workflow in current_workflows(ctx, stored)
        ],
        "openRuns": [
            {
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
            for run in await read_run_summaries(ctx, run_rows)
        ],
        "next": next_call("start_run", "Start a run of one of the workflows."),
    }
    detail_call = next_call("get_dag_map", "Get one complete definition.")
    return fit_reply(body, ("openRuns", "dags"), detail_call)


#: Approximate bytes per step or edge in a definition, to estimate the cost of drawing its map.
_BYTES_PER_MAP_ITEM: Final = 20


class AddDag(MutatingArguments):
    definition: AnyJson = Field(description="JSON object: slug, name, stages, transitions")


@Tool(
    title="Add a workflow definition",
    description=(
        "Add a workflow (DAG) definition or a new version of it. Open runs keep their version. Its "
        f"JSON schema: resource {WORKFLOW_SCHEMA_URI}."
    ),
    reply={"dagSlug": "string", "version": "integer"},
    idempotent=True,
    profiles=ADMIN,
    scopes=frozenset({Scope.ADMIN}),
)
async def add_dag(ctx: RequestContext, args: AddDag) -> ToolReply:
    """Check a workflow definition and store it. An identical definition changes nothing."""
    weight = len(orjson.dumps(args.definition)) // _BYTES_PER_MAP_ITEM

    def compile_runnable() -> CompiledDag:
        compiled_dag = compile_definition(args.definition, 1)
        require_runnable(compiled_dag)
        return compiled_dag

    org_id, worker = ctx.caller.org_id, ctx.services.shared(LayoutWorker)
    try:
        compiled_dag = await worker.run(org_id, weight, compile_runnable)
    except BadRecipe as error:
        error.details["schema"] = WORKFLOW_SCHEMA_URI
        raise
    body, slug = definition_body(compiled_dag.dag), compiled_dag.dag.slug
    lock, stored = load.SQL["lock_definition"], load.SQL["definition"]
    opened = OpenTransaction(ctx, lock(slug=slug), stored(slug=slug, version=None))

    async def decide() -> Proposal[Written]:
        rows: Sequence[DefinitionRow] = opened.results[-1]
        latest = rows[0].version if rows else 0
        if rows and bytes.fromhex(rows[0].body_hash) == definition_hash(body):
            return Proposal(Written([]), _reply(slug, latest, "unchanged"))
        made = definition_statement(compiled_dag.dag, latest + 1, body, opened.now, ctx.caller.user)
        # The event is not about a run, so its id is a new one. It only tells clients that they can
        # now use the tools for runs.
        event = ChangeEvent(RUN, new_id(), 0, list_changed=True)
        return Proposal(Written([made], event=event), _reply(slug, latest + 1, "added"))

    return await update(opened, decide)


def _reply(slug: str, version: int, status: str) -> Body:
    why = "See the map of the workflow."
    return {
        "dagSlug": slug,
        "version": version,
        "status": status,
        "next": next_call("get_dag_map", why, dagSlug=slug),
    }
