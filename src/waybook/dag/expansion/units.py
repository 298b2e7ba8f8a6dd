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

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    """The first author of each lineage of a stage's outputs, and all authors without duplicates."""

    first_author: Mapping[str, str]
    authors: tuple[str, ...]

    @property
    def lineages(self) -> Collection[str]:
        return self.first_author.keys()


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
    return Origins(first_author=first_author, authors=distinct(first_author.values()))


def entry_origins(models: Sequence[str]) -> Origins:
    return single_author_origins({f"{ENTRY}/{model}": model for model in models})


def merge_origins(parts: Iterable[Origins]) -> Origins:
    first_author: dict[str, str] = {}
    authors: dict[str, None] = {}
    for part in parts:
        for lineage, author in part.first_author.items():
            first_author.setdefault(lineage, author)
        authors.update(dict.fromkeys(part.authors))
    return Origins(first_author=first_author, authors=tuple(authors))


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
#: Number of items of each list whose length is known, by the name of the list.
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
    """Return, for each step that is split by items, the items of its list as lineages.

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


#: Axes by which each strategy splits a step. If a step is split by lineage, its outputs continue
#: the lineage of their job; otherwise they begin new lineages. If a step is split only by lineage,
#: the job goes to the model that began the lineage, if that model takes part.
AXES: Mapping[Strategy, tuple[Axis, ...]] = MappingProxyType(
    {
        Strategy.ALL_TO_ONE: (),
        Strategy.PER_MODEL: (Axis.MODEL,),
        Strategy.PER_SOURCE_DOCUMENT: (Axis.LINEAGE,),
        Strategy.PER_SOURCE_DOCUMENT_BY_LINEAGE: (Axis.LINEAGE, Axis.MODEL),
        Strategy.PAIRWISE_BY_ORIGIN: (Axis.LINEAGE, Axis.REVIEWER, Axis.MODEL),
        Strategy.PER_SOURCE_GROUP: (Axis.LINEAGE,),
        Strategy.PER_ITEM: (Axis.LINEAGE,),
        Strategy.PER_ITEM_AND_MODEL: (Axis.LINEAGE, Axis.MODEL),
    }
)


def _axis_values(axis: Axis, models: Sequence[str], prior: Origins) -> Collection[str]:
    names = {Axis.LINEAGE: prior.lineages, Axis.REVIEWER: prior.authors, Axis.MODEL: models}
    return names[axis]


def unit_count(strategy: Strategy, models: Sequence[str], prior: Origins) -> int:
    return prod(len(_axis_values(axis, models, prior)) for axis in AXES[strategy])


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

    >>> prior = Origins(first_author={"x": "a", "y": "b"}, authors=("a", "b"))
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
    chain = [graph.steps[step_key]]
    while (source := primary_source(chain[-1], stage.slug, graph)) is not None:
        chain.append(graph.steps[source])
    if any(step.skip for step in chain):
        return ()
    origins = split_origins(chain[-1], stage, prior, items)
    begun = _begun(chain[-1], stage.slug, graph, models, origins)
    if len(chain) == 1:
        return tuple(begun)
    made = (output for unit in begun for output in unit.makes)
    return tuple(
        Unit(
            step_key=step_key,
            number=number,
            model=output.model,
            lineage=output.lineage,
            reviewer=output.reviewer,
            source=output,
            makes=(output,),
        )
        for number, output in enumerate(made, 1)
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
    axes = AXES[step.strategy]
    owners = lineage_owners(models, prior) if axes == (Axis.LINEAGE,) else {}
    by_items = step.strategy in ITEM_STRATEGIES
    numbers = {name: place for place, name in enumerate(prior.lineages, 1)} if by_items else {}
    points = product(*(_axis_values(axis, models, prior) for axis in axes))
    for number, names in enumerate(points, 1):
        point = dict(zip(axes, names, strict=True))
        lineage, reviewer = point.get(Axis.LINEAGE), point.get(Axis.REVIEWER)
        carried_on = lineage or lineage_name(stage, step.key, point.get(Axis.MODEL))
        model = point.get(Axis.MODEL) or owners.get(carried_on) or first_of(models)
        yield Unit(
            step_key=step.key,
            number=number,
            model=model,
            lineage=lineage,
            reviewer=reviewer,
            item=numbers.get(carried_on),
            makes=(ProducedDocument(model, carried_on, reviewer),),
        )
