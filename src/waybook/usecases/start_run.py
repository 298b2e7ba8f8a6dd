"""start_run: begin a run of a prepared workflow."""

from pydantic import Field

from waybook.errors import InvalidInput, NextCall, NotFound
from waybook.run.model import Chart
from waybook.run.start import new_run
from waybook.store import definitions, run_ledger
from waybook.store.ids import new_id
from waybook.store.sql import Statement
from waybook.usecases.arguments import AnyJson, Id, Loose, Mutating, Name, limit_result
from waybook.usecases.call import Body, Call, Opened
from waybook.usecases.charts import OURSELVES, body_of, builtin_charts, chart_of, hash_of_body
from waybook.usecases.run_views import started_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool


class StartRun(Mutating):
    dag_slug: Id
    name: Name
    input: AnyJson = Field(description="what the run is about: a text, or texts by document key")
    models: Loose[list[Id]] = Field(description="whoever works; each job is for one of them")


async def start_run(call: Call, asked: StartRun) -> Body:
    """Make a run, pinned to the definition's latest version, and start its first stage."""
    if asked.input is None:
        raise InvalidInput("input: say what the run is about, in a text or texts by document key")
    limit_result(input=asked.input)
    async with call.open(definitions.definition_statement(asked.dag_slug)) as opened:
        chart, made = _chart(opened, asked.dag_slug)
        given = (chart, new_id(), asked.name, asked.input, asked.models, opened.moment)
        decision = new_run(*given)
        run = decision.run
        statements = run_ledger.statements(None, {}, decision, opened.hand())
        body: Body = {
            "runId": run.id,
            "name": run.name,
            "dagSlug": chart.dag.slug,
            "version": chart.version,
            "stages": [started_view(stage, run) for stage in decision.reply.stages],
            "next": take_job(run.id, "take the first job"),
        }
        return await opened.write([*made, *statements], body)


def _chart(opened: Opened, slug: str) -> tuple[Chart, list[Statement]]:
    """The definition to go by; one of our own is kept in the version that we ship now."""
    (rows,), shipped = opened.found, builtin_charts().get(slug)
    ours = not rows or rows[0][5] == OURSELVES
    if shipped is not None and ours:
        body = body_of(shipped.dag)
        digest = hash_of_body(body)
        if rows and bytes.fromhex(rows[0][3]) == digest:
            return Chart(shipped.dag, shipped.graphs, rows[0][0]), []
        version = rows[0][0] + 1 if rows else 1
        made = run_ledger.add_definition(
            slug=slug,
            version=version,
            name=shipped.dag.name,
            body=body,
            body_hash=digest,
            now=opened.now,
            by=OURSELVES,
        )
        return Chart(shipped.dag, shipped.graphs, version), [made]
    if not rows:
        raise dag_not_found()
    return chart_of(rows[0][2], rows[0][0]), []


def dag_not_found() -> NotFound:
    """The answer for a workflow nobody has defined here."""
    return NotFound(
        "there is no DAG with this slug here",
        next_call=NextCall("list_dags", {}, "see the DAGs there are"),
    )


TOOL = Tool(
    name="start_run",
    title="Start a run",
    description="Start a run of a DAG, with its first stage. Then take jobs with get_next_job.",
    arguments=StartRun,
    output_schema=output_schema(runId="string"),
    run=start_run,
    profiles=RUNS,
)
