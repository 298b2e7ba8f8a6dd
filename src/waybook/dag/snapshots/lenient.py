"""Definitions of others, read as far as they can be read.

A fault keeps us from counting what a stage will make, and from counting behind it, but not from
seeing where its steps stand: for that it is enough to know its steps and edges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from waybook.dag.definitions.definition import graphs_of, read_definition
from waybook.dag.graph import Graph, graph_or_errors
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy, Transition
from waybook.dag.progress.structure import Structure, valid_structure
from waybook.dag.snapshots.rows import Raw, as_list, as_object
from waybook.errors import BadRecipe

#: A recipe with nothing wrong in it, to stand in where another one is looked at.
PLACEHOLDER_RECIPE = {
    "steps": [{"stepKey": "x", "jobType": "PLAN", "granularityStrategy": "all_to_one"}]
}


@dataclass(frozen=True, slots=True)
class LenientDefinition:
    structure: Structure
    #: What is wrong, under the stage it is wrong in, or under None.
    warnings: Mapping[str | None, Sequence[str]]


def read_leniently(data: object) -> LenientDefinition:
    """The structure that parsed JSON defines, as far as it can be made out.

    Raises:
        BadRecipe: there is no list of stages.
    """
    try:
        dag = read_definition(data, strict=False)
    except BadRecipe as refused:
        if not as_list(as_object(data).get("stages")):
            raise refused from None
        found = _stage_by_stage(as_object(data))
        # What only the whole shows, such as a document asked of a later stage.
        alone = any(found.warnings.values())
        return found if alone else replace(found, warnings={None: _told(refused)})
    return LenientDefinition(valid_structure(dag, graphs_of(dag)), {})


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
    """The stages' slugs; one that has none of its own goes by its place."""
    names: dict[str, None] = {}
    for place, raw in enumerate(raws):
        slug = as_object(raw).get("slug")
        own = isinstance(slug, str) and slug and slug not in names
        names[str(slug) if own else f"stages[{place}]"] = None
    return list(names)


def _ways(data: Raw, slugs: Sequence[str]) -> tuple[tuple[Transition, ...] | None, list[str]]:
    """The transitions, if the way through the stages is clear, and what is wrong with the DAG."""
    stages = [{"slug": slug, "recipe": PLACEHOLDER_RECIPE} for slug in slugs]
    found = _read({**data, "stages": stages})
    if isinstance(found, Dag):
        return found.transitions, []
    # What the DAG is called, or says of itself, takes nothing from its stages.
    clear = _read({"slug": "x", "stages": stages, "transitions": data.get("transitions")})
    return clear.transitions if isinstance(clear, Dag) else None, _told(found)


def _stage(slug: str, raw: Raw, slugs: Sequence[str], *, look: bool) -> tuple[Stage, Sequence[str]]:
    """One stage and what is wrong with it; then there is no more to it than steps and edges."""
    bare = Stage(slug, slug, _bare_recipe(as_object(raw.get("recipe"))))
    if raw.get("slug") != slug:
        return bare, ["slug: it has none of its own, and goes by its place"]
    if not look:
        return bare, []
    others = {name for name in _mentioned(raw) if name != slug} & set(slugs)
    before = [{"slug": other, "recipe": PLACEHOLDER_RECIPE} for other in sorted(others)]
    found = _read({"slug": "x", "stages": [*before, raw]})
    if isinstance(found, Dag):
        return found.stages[-1], []
    return bare, _told(found, f"stages[{len(before)}].")


def _read(data: object) -> Dag | BadRecipe:
    try:
        return read_definition(data, strict=False)
    except BadRecipe as refused:
        return refused


def _told(refused: BadRecipe, inside: str = "") -> list[str]:
    """The faults in words, each with its place inside of what was looked at."""
    faults = [as_object(fault) for fault in as_list(refused.details.get("faults"))]
    return [f"{str(one['at']).removeprefix(inside)}: {one['message']}" for one in faults]


def _mentioned(raw: Raw) -> Iterator[str]:
    """The stages a stage says it takes documents from."""
    for step in as_list(as_object(raw.get("recipe")).get("steps")):
        for wanted in as_list(as_object(step).get("inputsRequired")):
            name = as_object(wanted).get("stage")
            if isinstance(name, str):
                yield name


# Steps and edges alone


def _bare_recipe(raw: Raw) -> Recipe:
    """Steps and edges, and nothing else; empty if not even those can be made out."""
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
