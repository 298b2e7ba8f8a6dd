"""list_dags: the prepared workflows there are, and the runs that are open."""

from typing import Any

from waybook.dag.model import Dag
from waybook.record.moment import Json
from waybook.research.cutting import beginning
from waybook.run.model import Chart
from waybook.store import definitions, runs
from waybook.usecases.arguments import Reading
from waybook.usecases.call import Body, Call
from waybook.usecases.charts import builtin_charts
from waybook.usecases.find_runs import FoundRun, found_runs
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, moment, within_reply

MOST_RUNS = 50
#: How much of a description is told, in bytes.
MOST_DESCRIBED = 600


class ListDags(Reading):
    pass


async def list_dags(call: Call, _: ListDags) -> Body:
    """Every definition in its latest version, and the open runs."""
    stored, found = await call.read(
        definitions.definitions_statement(), runs.find_statement(MOST_RUNS, open_only=True)
    )
    charts = {**builtin_charts(), **{row[0]: _chart(call, *row) for row in stored}}
    body: Body = {
        "dags": [_view(charts[slug]) for slug in sorted(charts)],
        "openRuns": [_run_view(run) for run in await found_runs(call, found)],
        "next": following("start_run", "start a run of one of them"),
    }
    whole = following("get_dag_map", "one definition, whole")
    return within_reply(body, ("openRuns", "dags"), whole)


def _chart(call: Call, slug: str, *row: Any) -> Chart:  # noqa: ANN401 - as it was found
    return call.house.charts.current(call.caller.org_id, slug, [row]).chart


def _view(chart: Chart) -> Body:
    dag: Dag = chart.dag
    stages: list[Json] = [
        {"stageSlug": slug, "name": chart.stages[slug].name, "steps": len(chart.graphs[slug].order)}
        for slug in chart.order
    ]
    return {
        "dagSlug": dag.slug,
        "name": dag.name,
        "version": chart.version,
        "description": beginning(dag.description, MOST_DESCRIBED),
        "stages": stages,
    }


def _run_view(run: FoundRun) -> Body:
    return {
        "runId": run.id,
        "name": run.name,
        "dagSlug": run.chart.dag.slug,
        "version": run.chart.version,
        "currentStage": run.current.slug if run.current else None,
        "awaitingFeedback": run.awaiting.slug if run.awaiting else None,
        "completedSteps": sum(stage.closed for stage in run.stages),
        "failedSteps": sum(stage.failed for stage in run.stages),
        "createdAt": moment(run.created_at),
        "createdBy": run.created_by,
        "updatedAt": moment(run.updated_at),
    }


TOOL = Tool(
    name="list_dags",
    title="List prepared workflows",
    description="The prepared workflows (DAGs) a run can be started of, and the open runs.",
    arguments=ListDags,
    output_schema=output_schema(dags="array"),
    run=list_dags,
    reads_only=True,
    profiles=RUNS,
)
