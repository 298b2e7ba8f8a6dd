"""start_run: begin a run of a prepared workflow."""

from pydantic import Field

from waybook.errors import InvalidInput
from waybook.record.news import RUN, News
from waybook.run.model import Chart
from waybook.run.start import new_run
from waybook.store import definitions, run_ledger
from waybook.store.ids import new_id
from waybook.store.sql import Statement
from waybook.usecases.arguments import AnyJson, Id, Loose, Mutating, Name, limit_result
from waybook.usecases.call import Body, Call, Opened
from waybook.usecases.charts import OURSELVES, body_of, hash_of_body
from waybook.usecases.run_views import started_view, take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.telling import told_of_run
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, within_reply


class StartRun(Mutating):
    dag_slug: Id
    name: Name
    input: AnyJson = Field(description="its subject: a text, or texts by document key")
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
        hand = opened.hand()
        statements = run_ledger.statements(None, {}, decision, hand)
        statements += told_of_run(call.house, call.caller, None, run, chart, hand)
        body: Body = {
            "runId": run.id,
            "name": run.name,
            "dagSlug": chart.dag.slug,
            "version": chart.version,
            "stages": [started_view(stage, run) for stage in decision.reply.stages],
            "next": take_job(run.id, "take the first job"),
        }
        look = following("get_run_progress", "all that was started", runId=run.id)
        reply = await opened.write([*made, *statements], within_reply(body, ("stages",), look))
        news = News(RUN, run.id, len(decision.entries), standing=True)
        call.house.bus.publish(call.caller.org_id, news)
        return reply


def _chart(opened: Opened, slug: str) -> tuple[Chart, list[Statement]]:
    """The definition to go by, and what keeps it if nobody has."""
    charts, org_id = opened.call.house.charts, opened.call.caller.org_id
    current = charts.current(org_id, slug, opened.found[0])
    chart = current.chart
    if not current.unkept:
        return chart, []
    body = body_of(chart.dag)
    made = run_ledger.add_definition(
        slug=slug,
        version=chart.version,
        name=chart.dag.name,
        body=body,
        body_hash=hash_of_body(body),
        now=opened.now,
        by=OURSELVES,
    )
    return chart, [made]


TOOL = Tool(
    name="start_run",
    title="Start a run",
    description="Start a run of a DAG, with its first stage. Then take jobs with get_next_job.",
    arguments=StartRun,
    output_schema=output_schema(runId="string"),
    run=start_run,
    profiles=RUNS,
)
