"""Splits a step into jobs, and names the outputs of each job.

A unit is the work of one job, before the job is stored. A lineage is a chain of documents that
continue each other.

A strategy splits a step by lineages, reviewers or models, into one job per combination. A
`per_source_document` step with predecessors instead has one job per output of its primary source
(see `primary_source`).

If a step is split by items, its first input is a list: a field of the run's input, or a document
that a PLAN step produces. Each item of the list is a lineage of its own, named after the list and
the position of the item, so all documents about an item belong together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from math import prod
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from waybook.dag.graph import Graph, output_keys, primary_source
from waybook.dag.model import Dag, JobType, RecipeStep, Stage, Strategy
from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import Json, parse_content

#: An imaginary stage before the first stage, which supplies the run's input.
ENTRY = "entry"


class ProducedDocument(NamedTuple):
    """An output of a job. Its model, lineage and reviewer identify it within the step."""

    model: str
    lineage: str
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """Lineages and authors of a stage's outputs, without duplicates."""

    lineages: tuple[str, ...]
    authors: tuple[str, ...]
    first_author: Mapping[str, str]


def distinct(models: Iterable[str]) -> tuple[str, ...]:
    """Return the models without duplicates, in the same order.

    >>> distinct(["b", "a", "b"])
    ('b', 'a')
    """
    return tuple(dict.fromkeys(models))


def lineage_name(stage: str, step: str, model: str | None = None) -> str:
    """Return the name of the lineage that begins at this step.

    >>> lineage_name("thesis", "header", "opus"), lineage_name("synthesis", "summary")
    ('thesis/header/opus', 'synthesis/summary')
    """
    return f"{stage}/{step}" if model is None else f"{stage}/{step}/{model}"


def single_author_origins(first_author: Mapping[str, str]) -> Origins:
    return Origins(
        lineages=tuple(first_author),
        authors=distinct(first_author.values()),
        first_author=first_author,
    )


def entry_origins(models: Sequence[str]) -> Origins:
    return single_author_origins({f"{ENTRY}/{model}": model for model in models})


def merge_origins(parts: Iterable[Origins]) -> Origins:
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for part in parts:
        for lineage, author in part.first_author.items():
            first_author.setdefault(lineage, author)
        authors.update(dict.fromkeys(part.authors))
    return Origins(lineages=tuple(first_author), authors=tuple(authors), first_author=first_author)


ITEM_STRATEGIES = frozenset({Strategy.PER_ITEM, Strategy.PER_ITEM_AND_MODEL})
MAX_ITEMS = 1_000


class ItemList(NamedTuple):
    name: str
    document_key: str
    #: Stage in which a step produces the list. None if the list is part of the run's input.
    stage: str | None
    #: Smallest limit that a step declares for the list, or None.
    max_items: int | None


#: For each step with one job per item of a list: the list or, in `ItemOrigins`, its items. The keys
#: are the stage and the key of the step.
ItemLists: TypeAlias = Mapping[tuple[str, str], ItemList]
ItemOrigins: TypeAlias = Mapping[tuple[str, str], Origins]
#: Number of items of each list that is known, by the name of the list.
Lengths: TypeAlias = Mapping[str, int]

NO_LENGTHS: Lengths = MappingProxyType({})
NO_ITEMS: ItemOrigins = MappingProxyType({})
_NO_ORIGINS = single_author_origins({})


def list_place(step: RecipeStep, stage: str) -> tuple[str, str] | None:
    """Return the stage and key of the list if the step has one job per item of a list.

    Return None for any other step.
    """
    if step.strategy not in ITEM_STRATEGIES or not step.inputs:
        return None
    return step.inputs[0].stage or stage, step.inputs[0].document_key


def item_lists(dag: Dag) -> ItemLists:
    steps = [(stage.slug, step) for stage in dag.stages for step in stage.recipe.steps]
    split = [(slug, step, place) for slug, step in steps if (place := list_place(step, slug))]
    if not split:
        return {}
    makers = {(slug, key): step for slug, step in steps for key in output_keys(step)}
    lists: dict[tuple[str, str], ItemList] = {}
    limits: dict[str, int] = {}
    for slug, step, place in split:
        maker = makers.get(place)
        parts = place if maker else place[1:]
        name = "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)
        lists[slug, step.key] = ItemList(name, place[1], place[0] if maker else None, None)
        # A skipped step produces no list, so there are no items.
        limit = 0 if maker and maker.skip else step.max_items
        if limit is not None:
            limits[name] = min(limit, limits.get(name, limit))
    return {
        step: item_list._replace(max_items=limits.get(item_list.name))
        for step, item_list in lists.items()
    }


def item_origins(lists: ItemLists, lengths: Lengths) -> ItemOrigins:
    """Return, for each split step, the items of its list as lineages.

    If the length of the list is unknown, there are no items.
    """
    by_name = {
        name: single_author_origins({f"{name}/{n}": "" for n in range(1, lengths.get(name, 0) + 1)})
        for name in {item_list.name for item_list in lists.values()}
    }
    return {step: by_name[item_list.name] for step, item_list in lists.items()}


def split_origins(step: RecipeStep, stage: Stage, prior: Origins, items: ItemOrigins) -> Origins:
    """Return the lineages and authors by which a step is split into jobs."""
    if step.strategy not in ITEM_STRATEGIES:
        return prior
    return items.get((stage.slug, step.key), _NO_ORIGINS)


def read_items(value: Json, item_list: ItemList) -> list[Json]:
    """Return the items of a list, which may be given as JSON text.

    Raises:
        InvalidInput: the value is not a list, or an item is empty.
        TooLarge: the list has too many items.
    """
    items = parse_content(value) if isinstance(value, str) else value
    key = item_list.document_key
    if not isinstance(items, list):
        message = f"`{key}` must be a JSON array, because each of its items becomes a job"
        raise InvalidInput(message, documentKey=key)
    limit = MAX_ITEMS if item_list.max_items is None else item_list.max_items
    if len(items) > limit:
        message = f"the list `{key}` has {len(items):,} items; it may have at most {limit:,}"
        raise TooLarge(message, documentKey=key, limit=limit)
    for number, item in enumerate(items, 1):
        if item in (None, [], {}) or (isinstance(item, str) and not item.strip()):
            raise InvalidInput(f"item {number} of the list `{key}` is empty", documentKey=key)
    return items


def input_field(run_input: Json, key: str) -> Json:
    """Return the field of a run's input with this key, or the whole input if it lacks the field.

    >>> input_field({"question": "Why?"}, "question"), input_field("Why?", "question")
    ('Why?', 'Why?')
    """
    return run_input.get(key, run_input) if isinstance(run_input, dict) else run_input


NO_MODEL = ""


class Axis(StrEnum):
    LINEAGE = "each lineage of the prior stage"
    REVIEWER = "each author of the prior stage"
    MODEL = "each model of this stage"


class Worker(StrEnum):
    FIRST = "the first model of this stage"
    EACH = "the model the unit stands for"
    AUTHOR = "who wrote the unit's lineage first, else the models in turn"


class Descent(StrEnum):
    NEW = "a lineage begins with each output"
    INHERITED = "the output carries on the unit's lineage"


@dataclass(frozen=True, slots=True)
class Granularity:
    axes: tuple[Axis, ...]
    worker: Worker
    descent: Descent


A = Axis
W = Worker
D = Descent

# fmt: off
GRANULARITY: Mapping[Strategy, Granularity] = MappingProxyType({
    Strategy.ALL_TO_ONE:
        Granularity((),                                W.FIRST,  D.NEW),
    Strategy.PER_MODEL:
        Granularity((A.MODEL,),                        W.EACH,   D.NEW),
    Strategy.PER_SOURCE_DOCUMENT:
        Granularity((A.LINEAGE,),                      W.AUTHOR, D.INHERITED),
    Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE:
        Granularity((A.LINEAGE, A.MODEL),              W.EACH,   D.INHERITED),
    Strategy.PAIRWISE_BY_ORIGIN:
        Granularity((A.LINEAGE, A.REVIEWER, A.MODEL),  W.EACH,   D.INHERITED),
    Strategy.PER_SOURCE_GROUP:
        Granularity((A.LINEAGE,),                      W.AUTHOR, D.INHERITED),
    Strategy.PER_ITEM:
        Granularity((A.LINEAGE,),                      W.AUTHOR, D.INHERITED),
    Strategy.PER_ITEM_AND_MODEL:
        Granularity((A.LINEAGE, A.MODEL),              W.EACH,   D.INHERITED),
})


# fmt: on


def _axis_values(axis: Axis, models: Sequence[str], prior: Origins) -> Sequence[str]:
    names = {Axis.LINEAGE: prior.lineages, Axis.REVIEWER: prior.authors, Axis.MODEL: models}
    return names[axis]


def unit_count(strategy: Strategy, models: Sequence[str], prior: Origins) -> int:
    return prod(len(_axis_values(axis, models, prior)) for axis in GRANULARITY[strategy].axes)


def fans_out(step: RecipeStep, graph: Graph) -> bool:
    """Return whether the step has a single job that produces one output per model."""
    return (
        step.strategy is Strategy.ALL_TO_ONE
        and step.job_type is JobType.PLAN
        and any(
            graph.steps[key].strategy is Strategy.PER_SOURCE_DOCUMENT
            for key in graph.successors[step.key]
        )
    )


def first_of(models: Sequence[str]) -> str:
    return models[0] if models else NO_MODEL


def lineage_owners(models: Sequence[str], prior: Origins) -> Mapping[str, str]:
    """Return the model that continues each lineage: its first author, if that model takes part.

    >>> prior = Origins(lineages=("x", "y"), authors=("a", "b"), first_author={"x": "a", "y": "b"})
    >>> lineage_owners(["b", "c"], prior)
    {'x': 'b', 'y': 'b'}
    """
    present = frozenset(models)
    return {
        lineage: author
        if author in present
        else (models[place % len(models)] if models else NO_MODEL)
        for place, (lineage, author) in enumerate(prior.first_author.items())
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    step_key: str
    number: int
    model: str
    #: Lineage that the job continues. None if the job begins a new lineage.
    lineage: str | None = None
    reviewer: str | None = None
    source: ProducedDocument | None = None
    #: Position of the job's item in the list of the step. None if the step is not split by items.
    item: int | None = None
    makes: tuple[ProducedDocument, ...]


def units_of(
    step_key: str,
    stage: Stage,
    graph: Graph,
    models: Sequence[str],
    prior: Origins,
    items: ItemOrigins = NO_ITEMS,
) -> tuple[Unit, ...]:
    models = distinct(models)
    chain = _chain(step_key, stage.slug, graph)
    if any(step.skip for step in chain):
        return ()
    origins = split_origins(chain[-1], stage, prior, items)
    begun = _begun(chain[-1], stage.slug, graph, models, origins)
    if len(chain) == 1:
        return tuple(begun)
    made = (output for unit in begun for output in unit.makes)
    return tuple(_following(step_key, number, output) for number, output in enumerate(made, 1))


def _chain(step_key: str, stage: str, graph: Graph) -> list[RecipeStep]:
    chain = [graph.steps[step_key]]
    while (source := primary_source(chain[-1], stage, graph)) is not None:
        chain.append(graph.steps[source])
    return chain


def _following(step_key: str, number: int, output: ProducedDocument) -> Unit:
    return Unit(
        step_key=step_key,
        number=number,
        model=output.model,
        lineage=output.lineage,
        reviewer=output.reviewer,
        source=output,
        makes=(output,),
    )


def _begun(
    step: RecipeStep, stage: str, graph: Graph, models: Sequence[str], prior: Origins
) -> Iterable[Unit]:
    """Yield the units of a step, one per combination of lineage, reviewer and model."""
    if fans_out(step, graph):
        made = tuple(
            ProducedDocument(model, lineage_name(stage, step.key, model)) for model in models
        )
        yield Unit(step_key=step.key, number=1, model=first_of(models), makes=made)
        return
    row = GRANULARITY[step.strategy]
    carried = lineage_owners(models, prior) if row.worker is Worker.AUTHOR else {}
    by_items = step.strategy in ITEM_STRATEGIES
    numbers = {name: place for place, name in enumerate(prior.lineages, 1)} if by_items else {}
    points = product(*(_axis_values(axis, models, prior) for axis in row.axes))
    for number, names in enumerate(points, 1):
        point = dict(zip(row.axes, names, strict=True))
        model = _worker(row.worker, point, models, carried)
        reviewer = point.get(Axis.REVIEWER)
        yield Unit(
            step_key=step.key,
            number=number,
            model=model,
            lineage=point.get(Axis.LINEAGE),
            reviewer=reviewer,
            item=numbers.get(point.get(Axis.LINEAGE, "")),
            makes=(
                ProducedDocument(model, _lineage(row.descent, point, stage, step.key), reviewer),
            ),
        )


Point = Mapping[Axis, str]


def _lineage(descent: Descent, point: Point, stage: str, step_key: str) -> str:
    if descent is Descent.INHERITED:
        return point[Axis.LINEAGE]
    return lineage_name(stage, step_key, point.get(Axis.MODEL))


def _worker(worker: Worker, point: Point, models: Sequence[str], carried: Mapping[str, str]) -> str:
    if worker is Worker.FIRST:
        return first_of(models)
    if worker is Worker.EACH:
        return point[Axis.MODEL]
    return carried[point[Axis.LINEAGE]]
