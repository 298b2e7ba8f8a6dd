"""start_run: start a run of a workflow."""

from pydantic import Field

from waybook.app.request.arguments import (
    AnyJson,
    Id,
    LenientJson,
    MutatingArguments,
    Name,
    check_result_size,
)
from waybook.app.request.definition_cache import BUILTIN_AUTHOR, definition_body, definition_hash
from waybook.app.request.locking import OpenTransaction, Proposal, Written, update
from waybook.app.request.outbox import run_notification_statements
from waybook.app.request.reply import fit_reply, next_call, next_job_call, started_view
from waybook.app.request.request_context import RequestContext, ToolReply
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import InvalidInput
from waybook.json_values import Body
from waybook.run.model import CompiledDag
from waybook.run.start import new_run
from waybook.store.driver.queries import Statement, new_id
from waybook.store.runs import load, writer


class StartRun(MutatingArguments):
    dag_slug: Id = Field(description="slug of the workflow, from list_dags")
    name: Name = Field(description="short name")
    input: AnyJson = Field(
        description="subject of the run: a text, or JSON with texts by document key"
    )
    models: LenientJson[list[Id]] = Field(description="model names; each job is for one of them")


async def start_run(ctx: RequestContext, args: StartRun) -> ToolReply:
    """Create a run, bound to the workflow's latest version, and start its first stage."""
    if args.input is None:
        raise InvalidInput("input: say what the run is about, in a text or texts by document key")
    check_result_size(input=args.input)
    opened = OpenTransaction(ctx, load.definition_statement(args.dag_slug))

    async def decide() -> Proposal[Written]:
        compiled_dag, made = _chart(opened, args.dag_slug)
        run_args = (
            compiled_dag,
            new_id(),
            args.name,
            args.input,
            args.models,
            opened.decision_context,
        )
        decision = new_run(*run_args)
        run = decision.run
        write_context = opened.write_context
        written = Written(
            [*made, *writer.statements(None, {}, decision, write_context)],
            run_notification_statements(
                ctx.services, ctx.caller, None, run, compiled_dag, write_context
            ),
            ChangeEvent(RUN, run.id, len(decision.entries), list_changed=True),
        )
        body: Body = {
            "runId": run.id,
            "name": run.name,
            "dagSlug": compiled_dag.dag.slug,
            "version": compiled_dag.version,
            "stages": [started_view(stage, run) for stage in decision.reply.stages],
            "next": next_job_call(run.id, "take the first job"),
        }
        look = next_call("get_run_progress", "all that was started", runId=run.id)
        return Proposal(written, fit_reply(body, ("stages",), look))

    return await update(opened, decide)


def _chart(opened: OpenTransaction, slug: str) -> tuple[CompiledDag, list[Statement]]:
    """Return the workflow definition, and SQL statements to store it if it is not stored."""
    charts, org_id = opened.ctx.services.definition_cache, opened.ctx.caller.org_id
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
    description="Start a run of a workflow (DAG). Then take jobs with get_next_job.",
    arguments=StartRun,
    output_schema=output_schema(runId="string"),
    run=start_run,
    profiles=RUNS,
)
