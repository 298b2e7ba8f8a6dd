"""list_dags: the prepared workflows there are, and the runs that are open."""

from typing import Any

from waybook.dag.model import Dag
from waybook.record.moment import Json
from waybook.run.model import Chart
from waybook.store import definitions, runs
from waybook.usecases.arguments import Reading
from waybook.usecases.call import Body, Call
from waybook.usecases.charts import builtin_charts, chart_of
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, moment, within_reply

MOST_RUNS = 50


class ListDags(Reading):
    pass


async def list_dags(call: Call, _: ListDags) -> Body:
    """Every definition in its latest version, and the open runs."""
    stored, found = await call.read(
        definitions.definitions_statement(), runs.find_statement(MOST_RUNS, open_only=True)
    )
    charts = {**builtin_charts(), **{row[0]: _chart(call, row) for row in stored}}
    body: Body = {
        "dags": [_view(charts[slug]) for slug in sorted(charts)],
        "openRuns": [_run_view(row) for row in found],
        "next": following("start_run", "start a run of one of them"),
    }
    whole = following("get_dag_map", "one definition, whole")
    return within_reply(body, ("openRuns", "dags"), whole)


def _chart(call: Call, row: tuple[Any, ...]) -> Chart:
    slug, version, _, body, *_ = row
    known = call.house.charts.get(call.caller.org_id, slug, version)
    return known or call.house.charts.remember(call.caller.org_id, chart_of(body, version))


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
        "description": dag.description,
        "stages": stages,
    }


def _run_view(row: tuple[Any, ...]) -> Body:
    run_id, name, slug, version, created_at, created_by, updated_at, _, stages, steps = row
    current = next((stage for stage, done, _ in reversed(stages or []) if not done), None)
    waiting = [stage for stage, done, told in stages or [] if done and not told]
    return {
        "runId": run_id,
        "name": name,
        "dagSlug": slug,
        "version": version,
        "currentStage": current,
        "awaitingFeedback": None if current else (waiting or [None])[-1],
        "completedSteps": steps[0],
        "failedSteps": steps[1],
        "createdAt": moment(created_at),
        "createdBy": created_by,
        "updatedAt": moment(updated_at),
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
