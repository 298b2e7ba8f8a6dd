"""start_run: start a run of a workflow."""

from pydantic import Field

from waybook.app.request.arguments import (
    Id,
    LenientJson,
    Models,
    MutatingArguments,
    Name,
    SomeJson,
    check_result_size,
)
from waybook.app.request.definition_cache import (
    BUILTIN_AUTHOR,
    DefinitionCache,
    definition_body,
    definition_hash,
)
from waybook.app.request.locks.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.outbox import run_notification_statements
from waybook.app.request.reply import (
    fit_reply,
    next_call,
    next_job_call,
    run_origin_view,
    started_view,
)
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.core.events import RUN, ChangeEvent
from waybook.json_values import Body, non_empty
from waybook.run.draft import RunDecision
from waybook.run.model import CompiledDag
from waybook.run.start import StartedStages, new_run
from waybook.store.driver.queries import Statement, new_id
from waybook.store.runs import load, writer


class StartRun(MutatingArguments):
    dag_slug: Id = Field(description="slug of the workflow, from list_dags")
    name: Name = Field(description="short name")
    input: SomeJson = Field(
        description="subject of the run: a text, or JSON with texts by document key"
    )
    models: LenientJson[Models] = Field(description="model names; each job is for one of them")


async def start_run(ctx: RequestContext, args: StartRun) -> ToolReply:
    """Create a run, bound to the workflow's latest version, and start its first stage."""
    check_result_size(input=args.input)
    opened = OpenTransaction(ctx, load.definition_statement(args.dag_slug))

    async def decide() -> Proposal[Written]:
        compiled_dag, made = _chart(opened, args.dag_slug)
        context = opened.decision_context
        decision = new_run(compiled_dag, new_id(), args.name, args.input, args.models, context)
        return started_run_proposal(opened, decision, compiled_dag, made)

    return await update(opened, decide)


def started_run_proposal(
    opened: OpenTransaction,
    decision: RunDecision[StartedStages],
    compiled_dag: CompiledDag,
    made: list[Statement],
) -> Proposal[Written]:
    ctx, write_context, run = opened.ctx, opened.write_context, decision.run

    def remember() -> None:
        if any(job.unit is None for job in decision.jobs.values()):
            ctx.services.render_requested.add(ctx.caller.org_id)

    written = Written(
        [*made, *writer.statements(None, [writer.seal_decision(decision, {}, write_context)])],
        run_notification_statements(
            ctx.services, ctx.caller, None, run, compiled_dag, write_context
        ),
        ChangeEvent(RUN, run.id, len(decision.entries), list_changed=True),
        remember,
    )
    body: Body = {
        "runId": run.id,
        "name": run.name,
        "dagSlug": compiled_dag.dag.slug,
        "version": compiled_dag.version,
        **non_empty(copiedFrom=run_origin_view(run)),
        "stages": [started_view(stage, run) for stage in decision.reply.stages],
        "next": next_job_call(run.id, "Claim the first job."),
    }
    look = next_call("get_run_progress", "See everything that was started.", runId=run.id)
    return Proposal(written, fit_reply(body, ("stages",), look))


def _chart(opened: OpenTransaction, slug: str) -> tuple[CompiledDag, list[Statement]]:
    """Return the workflow definition, and statements that store it if it is new."""
    charts, org_id = opened.ctx.services.shared(DefinitionCache), opened.ctx.caller.org_id
    current = charts.current(org_id, slug, opened.results[0])
    compiled_dag = current.compiled_dag
    if not current.unsaved_body:
        return compiled_dag, []
    body = definition_body(compiled_dag.dag)
    made = writer.add_definition(
        slug=slug,
        version=compiled_dag.version,
        name=compiled_dag.dag.name,
        body=body,
        body_hash=definition_hash(body),
        now=opened.now,
        by=BUILTIN_AUTHOR,
    )
    return compiled_dag, [made]


TOOL = Tool(
    name="start_run",
    title="Start a run",
    description="Start a run of a workflow (DAG). Then claim jobs with get_next_job.",
    arguments=StartRun,
    output_schema=output_schema(runId="string"),
    run=start_run,
    profiles=RUNS,
)
