"""Reads workflow definitions of other systems, even with errors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from waybook.dag.definitions.definition import read_definition, read_graphs
from waybook.dag.graph import Graph, graph_or_errors
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy, Transition
from waybook.dag.progress.structure import Structure, valid_structure
from waybook.dag.snapshots.rows import Raw, as_list, as_object
from waybook.errors import BadRecipe

PLACEHOLDER_RECIPE = {
    "steps": [{"stepKey": "x", "jobType": "PLAN", "granularityStrategy": "all_to_one"}]
}


@dataclass(frozen=True, slots=True)
class LenientDefinition:
    structure: Structure
    warnings: Mapping[str | None, Sequence[str]]


def read_leniently(data: object) -> LenientDefinition:
    """Return the structure that parsed JSON defines, without the parts that cannot be parsed.

    Raises:
        BadRecipe: there is no list of stages.
    """
    try:
        dag, graphs = read_graphs(data, strict=False)
    except BadRecipe as refused:
        if not as_list(as_object(data).get("stages")):
            raise refused from None
        definition = _stage_by_stage(as_object(data))
        # If no single stage has an error, the errors concern the whole definition.
        alone = any(definition.warnings.values())
        return (
            definition if alone else replace(definition, warnings={None: _format_errors(refused)})
        )
    return LenientDefinition(valid_structure(dag, graphs), {})


def _stage_by_stage(data: Raw) -> LenientDefinition:
    raws = as_list(data["stages"])
    slugs = _names(raws)
    ways, strange = _ways(data, slugs)
    warnings: dict[str | None, Sequence[str]] = {None: strange}
    stages: list[Stage] = []
    graphs: dict[str, Graph] = {}
    sound: set[str] = set()
    for slug, raw in zip(slugs, raws, strict=True):
        stage, warnings[slug] = _stage(slug, as_object(raw), slugs, look=ways is not None)
        graph = graph_or_errors(stage.recipe)
        if isinstance(graph, Graph):
            graphs[slug] = graph
            sound |= {slug} if ways is not None and not warnings[slug] else set()
        stages.append(stage)
    dag = Dag(slug=slugs[0], name="", stages=tuple(stages), transitions=ways or ())
    return LenientDefinition(Structure(dag=dag, graphs=graphs, valid=frozenset(sound)), warnings)


def _names(raws: Sequence[object]) -> list[str]:
    names: dict[str, None] = {}
    for place, raw in enumerate(raws):
        slug = as_object(raw).get("slug")
        own = isinstance(slug, str) and slug and slug not in names
        names[str(slug) if own else f"stages[{place}]"] = None
    return list(names)


def _ways(data: Raw, slugs: Sequence[str]) -> tuple[tuple[Transition, ...] | None, list[str]]:
    stages = [{"slug": slug, "recipe": PLACEHOLDER_RECIPE} for slug in slugs]
    result = _read({**data, "stages": stages})
    if isinstance(result, Dag):
        return result.transitions, []
    # Errors in the name and description do not affect the stages.
    clear = _read({"slug": "x", "stages": stages, "transitions": data.get("transitions")})
    return clear.transitions if isinstance(clear, Dag) else None, _format_errors(result)


def _stage(slug: str, raw: Raw, slugs: Sequence[str], *, look: bool) -> tuple[Stage, Sequence[str]]:
    """Return a stage and its errors. A stage with errors keeps only its steps and edges."""
    bare = Stage(slug, slug, _bare_recipe(as_object(raw.get("recipe"))))
    if raw.get("slug") != slug:
        return bare, ["slug: it has none of its own, and goes by its place"]
    if not look:
        return bare, []
    others = {name for name in _mentioned(raw) if name != slug} & set(slugs)
    before = [{"slug": other, "recipe": PLACEHOLDER_RECIPE} for other in sorted(others)]
    result = _read({"slug": "x", "stages": [*before, raw]})
    if isinstance(result, Dag):
        return result.stages[-1], []
    return bare, _format_errors(result, f"stages[{len(before)}].")


def _read(data: object) -> Dag | BadRecipe:
    try:
        return read_definition(data, strict=False)
    except BadRecipe as refused:
        return refused


def _format_errors(refused: BadRecipe, inside: str = "") -> list[str]:
    faults = [as_object(fault) for fault in as_list(refused.details.get("faults"))]
    return [f"{str(error['at']).removeprefix(inside)}: {error['message']}" for error in faults]


def _mentioned(raw: Raw) -> Iterator[str]:
    for step in as_list(as_object(raw.get("recipe")).get("steps")):
        for wanted in as_list(as_object(step).get("inputsRequired")):
            name = as_object(wanted).get("stage")
            if isinstance(name, str):
                yield name


def _bare_recipe(raw: Raw) -> Recipe:
    """Return the steps and edges of a stage, or nothing if they cannot be parsed."""
    steps, edges = raw.get("steps"), raw.get("edges")
    if not (edges is None or isinstance(edges, list)):
        return Recipe(())
    try:
        return Recipe(
            tuple(_bare_step(as_object(step), n) for n, step in enumerate(as_list(steps), start=1)),
            tuple(map(_bare_edge, as_list(edges))),
        )
    except ValueError:
        return Recipe(())


def _bare_step(raw: Raw, place: int) -> RecipeStep:
    key, number = raw.get("stepKey"), raw.get("stepNumber")
    if not isinstance(key, str):
        raise ValueError("a step without a key is no step")  # noqa: TRY004 - it is not ours
    return RecipeStep(
        key=key,
        number=number if isinstance(number, int) else place,
        name=key,
        job_type=JobType.EXECUTE,
        strategy=Strategy.ALL_TO_ONE,
        output_type=key,
        skip=raw.get("skip") is True,
    )


def _bare_edge(raw: object) -> tuple[str, str]:
    match raw:
        case [str() as source, str() as target]:
            return source, target
        case _:
            raise ValueError("an edge is a pair of keys")
