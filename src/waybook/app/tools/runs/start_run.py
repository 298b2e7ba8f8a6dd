"""start_run: start a run of a workflow."""

from pydantic import ConfigDict, Field

from waybook.app.request.arguments import (
    AnyJson,
    Id,
    LenientJson,
    MutatingArguments,
    Name,
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
from waybook.app.request.request_context import RequestContext, ToolReply, id_or_nil
from waybook.app.request.run_access import load_run
from waybook.app.request.tool import RUNS, Tool, output_schema
from waybook.core.events import RUN, ChangeEvent
from waybook.errors import InvalidInput
from waybook.json_values import Body, non_empty
from waybook.run.copy import CopiedRun, copy_run
from waybook.run.draft import RunDecision
from waybook.run.model import CompiledDag
from waybook.run.start import StartedStages, new_run
from waybook.store.driver.queries import Statement, new_id
from waybook.store.runs import jobs, load, writer


class StartRun(MutatingArguments):
    # Models follow the schema, so it requires the arguments of a new run. A call that copies a run
    # works without them.
    model_config = ConfigDict(
        json_schema_extra={"required": ["dagSlug", "name", "input", "models"]}
    )

    dag_slug: Id | None = Field(default=None, description="slug of the workflow, from list_dags")
    name: Name | None = Field(default=None, description="short name")
    input: AnyJson = Field(
        default=None, description="subject of the run: a text, or JSON with texts by document key"
    )
    models: LenientJson[list[Id]] | None = Field(
        default=None, description="model names; each job is for one of them"
    )
    copy_of_run: Id | None = Field(
        default=None, alias="copyOf", description="id of the run to copy, instead of dagSlug"
    )
    from_stage: Id | None = Field(default=None, description="stage at which the copy starts again")


async def start_run(ctx: RequestContext, args: StartRun) -> ToolReply:
    """Create a run with the workflow's latest version, and start its first stage."""
    if args.copy_of_run is not None:
        return await _start_copy(ctx, args, args.copy_of_run)
    slug, name, models = _required(args)
    check_result_size(input=args.input)
    opened = OpenTransaction(ctx, load.definition_statement(slug))

    async def decide() -> Proposal[Written]:
        compiled_dag, made = _chart(opened, slug)
        context = opened.decision_context
        decision = new_run(compiled_dag, new_id(), name, args.input, models, context)
        return _proposal(opened, decision, compiled_dag, made)

    return await update(opened, decide)


def _required(args: StartRun) -> tuple[str, str, list[str]]:
    """Return the arguments that a run needs if it is not a copy."""
    if args.from_stage is not None:
        raise InvalidInput("fromStage is only for a copy; give the run in `copyOf`")
    given = {"dagSlug": args.dag_slug, "name": args.name, "models": args.models}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        faults = [{"at": name, "fault": "is missing"} for name in missing]
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise InvalidInput(f"{missing[0]}: is missing{more}", faults=faults)
    if args.input is None:
        raise InvalidInput("input: say what the run is about, in a text or texts by document key")
    return args.dag_slug or "", args.name or "", args.models or []


async def _start_copy(ctx: RequestContext, args: StartRun, run_id: str) -> ToolReply:
    if args.dag_slug is not None or args.input is not None:
        raise InvalidInput(
            "a copy gets its workflow and input from the run in `copyOf`: leave out `dagSlug` and "
            "`input`"
        )
    if args.from_stage is None:
        raise InvalidInput("fromStage is missing: give the stage at which the copy starts")
    run_id, stage = id_or_nil(run_id), args.from_stage
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
        named = (new_id(), stage, opened.decision_context)
        decision = copy_run(source, seen.compiled_dag, *named, name=args.name, models=args.models)
        return _proposal(opened, decision, seen.compiled_dag, [])

    return await update(opened, decide)


def _proposal(
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
