"""get_dag_map: the whole structure of a workflow, a run, or a plan."""

from typing import cast

import orjson
from pydantic import Field

from waybook.dag.model import RecipeStep
from waybook.dag.structure import Structure, map_json, sound_structure
from waybook.errors import InvalidInput
from waybook.record.moment import Json
from waybook.run.model import Chart
from waybook.run.stages import known_models
from waybook.store import definitions
from waybook.store.plans import Wanted
from waybook.usecases.arguments import Id, Loose, Reading
from waybook.usecases.call import Body, Call, known
from waybook.usecases.plan_map import plan_structure
from waybook.usecases.run_call import look_at_run
from waybook.usecases.run_views import take_job
from waybook.usecases.schemas import output_schema
from waybook.usecases.tool import RUNS, Tool
from waybook.usecases.views import following, reply_limit, told, within_reply


class GetDagMap(Reading):
    dag_slug: Id | None = None
    run_id: Id | None = Field(None, description="of a run, with its models")
    plan_id: Id | None = None
    models: Loose[list[Id]] | None = Field(None, description="count the jobs with these models")
    detail: bool = False


async def get_dag_map(call: Call, asked: GetDagMap) -> Body:
    """Stages, steps and edges, and how many jobs to expect."""
    body = await _whole_map(call, asked)
    return _fitted(body, asked, reply_limit(call.caller.channel, detail=asked.detail))


async def _whole_map(call: Call, asked: GetDagMap) -> Body:
    named = [one for one in (asked.dag_slug, asked.run_id, asked.plan_id) if one is not None]
    if len(named) != 1:
        raise InvalidInput("name a dagSlug, a runId or a planId, one of the three")
    if asked.plan_id is not None:
        loaded, _ = await call.look(Wanted(plan_id=known(asked.plan_id)))
        after = following("get_next_step", "take the next step", planId=asked.plan_id)
        return _map(plan_structure(loaded.plan), {}, after)
    if asked.run_id is not None:
        seen = await look_at_run(call, asked.run_id)
        models = {slug: stage.models for slug, stage in seen.loaded.run.stages.items()}
        return _map(_structure(seen.chart), models, take_job(asked.run_id), seen.chart)
    slug = asked.dag_slug or ""
    (rows,) = await call.read(definitions.definition_statement(slug))
    chart = call.house.charts.current(call.caller.org_id, slug, rows).chart
    chosen = {chart.order[0]: known_models(asked.models)} if asked.models else {}
    after = following("start_run", "start a run of it", dagSlug=chart.dag.slug)
    return _map(_structure(chart), chosen, after, chart)


def _structure(chart: Chart) -> Structure:
    return sound_structure(chart.dag, chart.graphs)


def _map(
    structure: Structure,
    models_of: dict[str, tuple[str, ...]],
    after: Json,
    chart: Chart | None = None,
) -> Body:
    dag = structure.dag
    maps = {stage["stageSlug"]: stage for stage in map_json(structure, models_of)["stages"]}
    stages: list[Json] = [
        {
            **cast("Body", maps[stage.slug]),
            "name": stage.name,
            "models": [*models_of.get(stage.slug, ())],
            "steps": [_step(step) for step in stage.recipe.steps],
            "edges": [[source, target] for source, target in stage.recipe.edges],
        }
        for stage in dag.stages
    ]
    transitions: list[Json] = [
        {"from": one.source, "to": one.target, "condition": one.condition}
        for one in dag.transitions
    ]
    return told(
        dagSlug=dag.slug if chart else None,
        name=dag.name,
        version=chart.version if chart else None,
        stages=stages,
        transitions=transitions,
        next=after,
    )


def _fitted(body: Body, asked: GetDagMap, most: int) -> Body:
    """The map; if it is too long for a client, its stages alone, with the call for the whole."""
    if len(orjson.dumps(body)) <= most:
        return body
    named = told(
        dagSlug=asked.dag_slug,
        runId=asked.run_id,
        planId=asked.plan_id,
        models=[*asked.models] if asked.models else None,
    )
    whole = following("get_dag_map", "with steps and edges", **named, detail=True)
    stages = cast("list[Body]", body["stages"])
    short: Body = {
        **body,
        "stages": [_alone(stage) for stage in stages],
        "transitions": [],
        "cut": {"left": "steps, edges and transitions", "get": whole},
    }
    if asked.detail:
        short["cut"] = {"left": "steps, edges and transitions", "limit": most}
    return within_reply(short, ("stages",), whole, most)


def _alone(stage: Body) -> Json:
    expected = cast("Body", stage["expected"])
    steps = len(cast("list[Json]", stage["steps"]))
    alone = {name: stage[name] for name in ("stageSlug", "name")}
    return {**alone, "stepCount": steps, "expected": {"total": expected["total"]}}


def _step(step: RecipeStep) -> Json:
    return told(
        stepKey=step.key,
        name=step.name,
        jobType=str(step.job_type),
        granularityStrategy=str(step.strategy),
        parallelGroup=step.parallel_group,
        skip=step.skip or None,
    )


TOOL = Tool(
    name="get_dag_map",
    title="See the map",
    description="Stages, steps, edges and expected jobs of a DAG, a run or a plan.",
    arguments=GetDagMap,
    output_schema=output_schema(stages="array"),
    run=get_dag_map,
    reads_only=True,
    profiles=RUNS,
)
