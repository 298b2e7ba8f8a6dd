"""Reads, checks and writes workflow definitions."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, cast

from waybook.dag.definitions.checks import check_structure
from waybook.dag.definitions.schema_check import Check, compile_check
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

Raw = Mapping[str, object]

#: A lookup in these tables is ten times as fast as calling the class of the enumeration.
_JOB_TYPES: Mapping[object, JobType] = {str(job_type): job_type for job_type in JobType}
_STRATEGIES: Mapping[object, Strategy] = {str(strategy): strategy for strategy in Strategy}


def definition_schema() -> dict[str, object]:
    text = (
        files("waybook.dag.definitions")
        .joinpath("definition.schema.json")
        .read_text(encoding="utf-8")
    )
    return cast("dict[str, object]", json.loads(text))


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


def _dag(raw: Raw) -> Dag:
    slug = _text(raw, "slug")
    stages = tuple(map(_stage, _list(raw, "stages")))
    return Dag(
        slug=slug,
        name=_text(raw, "name", slug),
        description=_text(raw, "description"),
        stages=stages,
        transitions=tuple(
            (Transition(previous.slug, other.slug) for previous, other in pairwise(stages))
        )
        if raw.get("transitions") is None
        else tuple(
            Transition(_text(each, "from"), _text(each, "to"), _text(each, "condition"))
            for each in _list(raw, "transitions")
        ),
    )


def _stage(raw: Raw) -> Stage:
    slug = _text(raw, "slug")
    return Stage(slug, _text(raw, "name", slug), _recipe(cast("Raw", raw["recipe"])))


def _recipe(raw: Raw) -> Recipe:
    steps = enumerate(_list(raw, "steps"), start=1)
    edges = cast("Sequence[tuple[str, str]]", raw.get("edges") or ())
    return Recipe(
        tuple(_step(step, place) for place, step in steps),
        tuple((source, target) for source, target in edges),
    )


def _step(raw: Raw, place: int) -> RecipeStep:
    key = _text(raw, "stepKey")
    number = raw.get("stepNumber")
    inputs = raw.get("inputsRequired")
    return RecipeStep(
        key=key,
        number=place if number is None else int(cast("int", number)),
        name=_text(raw, "name", key),
        job_type=_JOB_TYPES[raw["jobType"]],
        strategy=_STRATEGIES[raw["granularityStrategy"]],
        output_type=_text(raw, "outputType", key),
        inputs=None if inputs is None else tuple(map(_input, _list(raw, "inputsRequired"))),
        outputs=tuple(map(_output, _list(raw, "outputs"))) if "outputs" in raw else (),
        parallel_group=_group(raw.get("parallelGroup")),
        prompt=_text(raw, "prompt"),
        skip=bool(raw.get("skip")),
        max_items=None if raw.get("maxItems") is None else int(cast("int", raw["maxItems"])),
    )


def _group(raw: object) -> int | str | None:
    return int(raw) if isinstance(raw, float) else cast("int | str | None", raw)


def _input(raw: Raw) -> Input:
    stage = cast("str | None", raw.get("stage"))
    required = raw.get("required") is not False
    return Input(document_key=_text(raw, "documentKey"), stage=stage, required=required)


def _output(raw: Raw) -> Output:
    return Output(document_key=_text(raw, "documentKey"), render=_template(raw.get("render")))


def _template(value: object) -> str | None:
    if value is None or value is False:
        return None
    return DEFAULT_DOCUMENT if value is True or value == "" else cast("str", value)


def _text(raw: Raw, name: str, default: str = "") -> str:
    value = raw.get(name)
    return default if value is None else cast("str", value)


def _list(raw: Raw, name: str) -> Sequence[Raw]:
    return cast("Sequence[Raw]", raw.get(name) or ())


def write_definition(dag: Dag) -> dict[str, object]:
    return {
        "slug": dag.slug,
        "name": dag.name,
        **_unless_empty(description=dag.description),
        "stages": [
            {"slug": stage.slug, "name": stage.name, "recipe": _recipe_json(stage.recipe)}
            for stage in dag.stages
        ],
        "transitions": [
            {"from": way.source, "to": way.target, **_unless_empty(condition=way.condition)}
            for way in dag.transitions
        ],
    }


def _recipe_json(recipe: Recipe) -> dict[str, object]:
    return {
        "steps": [_step_json(step) for step in recipe.steps],
        "edges": [[source, target] for source, target in recipe.edges],
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
