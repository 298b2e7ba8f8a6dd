"""Reads, checks and writes workflow definitions."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, cast

from waybook.dag.definitions.checks import Check, check_structure, compile_check
from waybook.dag.diagnostics import Diagnostic, bad_recipe_error
from waybook.dag.graph import Graph, graph_of
from waybook.dag.model import (
    Dag,
    Input,
    JobType,
    Output,
    Recipe,
    RecipeStep,
    Stage,
    Strategy,
    Transition,
)
from waybook.dag.templates.template import DEFAULT_DOCUMENT

Raw = Mapping[str, Any]

#: A lookup in these tables is ten times as fast as calling the class of the enumeration.
_JOB_TYPES: Mapping[object, JobType] = {str(job_type): job_type for job_type in JobType}
_STRATEGIES: Mapping[object, Strategy] = {str(strategy): strategy for strategy in Strategy}


def definition_schema() -> dict[str, object]:
    file = files("waybook.dag.definitions").joinpath("definition.schema.json")
    return cast("dict[str, object]", json.loads(file.read_text(encoding="utf-8")))


@cache
def _form(*, strict: bool) -> Check:
    return compile_check(definition_schema(), strict=strict)


def read_definition(data: object, *, strict: bool = True) -> Dag:
    """Return the workflow that parsed JSON defines.

    Unknown properties are errors only if `strict` is set.

    Raises:
        BadRecipe: the definition is invalid; the error lists all schema errors, and all structural
        errors that are not consequences of other errors.
    """
    dag, _ = read_graphs(data, strict=strict)
    return dag


def read_checked_definition(data: object) -> Dag:
    """Return the workflow of a stored definition, which was checked before it was stored."""
    return _dag(cast("Raw", data))


def read_graphs(data: object, *, strict: bool = True) -> tuple[Dag, Mapping[str, Graph]]:
    faults = [
        Diagnostic(fault.name, fault.at.removeprefix(".") or "definition", fault.message)
        for fault in _form(strict=strict)(data)
    ]
    if faults:
        raise bad_recipe_error([*faults, *_errors_elsewhere(data, faults)])
    dag = _dag(cast("Raw", data))
    structural, graphs = check_structure(dag)
    if structural:
        raise bad_recipe_error(structural)
    return dag, graphs


_ITEM = re.compile(r"(?:stages\[\d+\]\.recipe\.(?:steps|edges)|transitions)\[\d+\]")
_DEPENDENCY_ERRORS = frozenset({"hidden_dependency", "primary_input"})


def _errors_elsewhere(data: object, faults: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the structural errors that are not consequences of the given schema errors.

    Items with schema errors are replaced by placeholders, so that the rest can be checked.
    """
    places = {item[0] for fault in faults if (item := _ITEM.match(fault.at))}
    rest = data
    for place in places:
        rest = _replaced(rest, re.findall(r"\w+", place), place)
    if _form(strict=False)(rest):
        return []
    dag = _dag(cast("Raw", rest))
    keys = {step.key for stage in dag.stages for step in stage.recipe.steps}
    unnamed = {place.partition(".")[0] for place in places & keys}

    def follows(error: Diagnostic) -> bool:
        stage = error.at.partition(".")[0]
        return (
            error.at.startswith(tuple(places))
            or (error.name == "dangling_edge" and stage in unnamed)
            or (error.name == "later_stage" and not all(f.at.startswith("stages") for f in faults))
            or (error.name in _DEPENDENCY_ERRORS and any(f.at.startswith(stage) for f in faults))
        )

    errors, _ = check_structure(dag)
    return [error for error in errors if not follows(error)]


def _replaced(value: Any, path: Sequence[str], place: str) -> Any:  # noqa: ANN401 - parsed JSON
    """Return a copy of parsed JSON in which a valid placeholder replaces the item at this path.

    The item is a step, an edge or a transition. The placeholder for a step has the step's key or,
    if the step has none, `place` as its key.
    """
    if path:
        copy = value.copy()
        member = int(path[0]) if path[0].isdigit() else path[0]
        copy[member] = _replaced(copy[member], path[1:], place)
        return copy
    if ".edges" in place:
        return [place, place]
    if ".steps" not in place:
        return {"from": place, "to": place}
    key = value.get("stepKey") if isinstance(value, dict) else None
    key = key if isinstance(key, str) else place
    return {"stepKey": key, "jobType": "PLAN", "granularityStrategy": "all_to_one"}


def graphs_of(dag: Dag) -> Mapping[str, Graph]:
    return {
        stage.slug: graph_of(stage.recipe, f"stages[{place}].recipe")
        for place, stage in enumerate(dag.stages)
    }


def _given(raw: Raw) -> Raw:
    """Return the properties that are not null. A null property counts as missing."""
    return {name: value for name, value in raw.items() if value is not None}


def _dag(data: Raw) -> Dag:
    raw = _given(data)
    stages = tuple(map(_stage, raw["stages"]))
    linked = [{"from": before.slug, "to": after.slug} for before, after in pairwise(stages)]
    return Dag(
        slug=raw["slug"],
        name=raw.get("name", raw["slug"]),
        description=raw.get("description", ""),
        stages=stages,
        transitions=tuple(
            Transition(way["from"], way["to"], way.get("condition", ""))
            for way in map(_given, raw.get("transitions", linked))
        ),
    )


def _stage(data: Raw) -> Stage:
    raw, recipe = _given(data), _given(data["recipe"])
    steps = tuple(_step(_given(step), place) for place, step in enumerate(recipe["steps"], 1))
    edges = tuple((source, target) for source, target in recipe.get("edges", ()))
    return Stage(raw["slug"], raw.get("name", raw["slug"]), Recipe(steps, edges))


def _step(raw: Raw, place: int) -> RecipeStep:
    key, group = raw["stepKey"], raw.get("parallelGroup")
    inputs = [
        Input(
            document_key=wanted["documentKey"],
            stage=wanted.get("stage"),
            required=wanted.get("required") is not False,
        )
        for wanted in raw.get("inputsRequired", ())
    ]
    return RecipeStep(
        key=key,
        number=int(raw.get("stepNumber", place)),
        name=raw.get("name", key),
        job_type=_JOB_TYPES[raw["jobType"]],
        strategy=_STRATEGIES[raw["granularityStrategy"]],
        output_type=raw.get("outputType", key),
        inputs=tuple(inputs) if "inputsRequired" in raw else None,
        outputs=tuple(
            Output(document_key=output["documentKey"], render=_template(output.get("render")))
            for output in raw.get("outputs", ())
        ),
        parallel_group=int(group) if isinstance(group, float) else group,
        prompt=raw.get("prompt", ""),
        skip=raw.get("skip", False),
        max_items=int(raw["maxItems"]) if "maxItems" in raw else None,
    )


def _template(value: str | bool | None) -> str | None:  # noqa: FBT001 - a value, not a flag
    if value is True or value == "":
        return DEFAULT_DOCUMENT
    return value or None


def write_definition(dag: Dag) -> dict[str, object]:
    return {
        "slug": dag.slug,
        "name": dag.name,
        **_unless_empty(description=dag.description),
        "stages": [
            {
                "slug": stage.slug,
                "name": stage.name,
                "recipe": {
                    "steps": [_step_json(step) for step in stage.recipe.steps],
                    "edges": [[source, target] for source, target in stage.recipe.edges],
                },
            }
            for stage in dag.stages
        ],
        "transitions": [
            {"from": way.source, "to": way.target, **_unless_empty(condition=way.condition)}
            for way in dag.transitions
        ],
    }


def _step_json(step: RecipeStep) -> dict[str, object]:
    inputs = (
        None
        if step.inputs is None
        else [
            {
                **_unless_none(stage=wanted.stage),
                "documentKey": wanted.document_key,
                "required": wanted.required,
            }
            for wanted in step.inputs
        ]
    )
    return {
        "stepKey": step.key,
        "stepNumber": step.number,
        "name": step.name,
        **_unless_none(parallelGroup=step.parallel_group),
        "jobType": str(step.job_type),
        "granularityStrategy": str(step.strategy),
        "outputType": step.output_type,
        **_unless_none(inputsRequired=inputs),
        **_unless_empty(
            outputs=[
                {"documentKey": output.document_key, **_unless_none(render=output.render)}
                for output in step.outputs
            ],
            prompt=step.prompt,
            skip=step.skip,
            maxItems=step.max_items,
        ),
    }


def _unless_none(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _unless_empty(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}
