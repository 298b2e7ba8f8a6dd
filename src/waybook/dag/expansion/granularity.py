"""The strategies: how each splits a step into jobs, and which model writes each output.

A strategy splits a step by lineages (chains of documents), reviewers or models. The step has one
job per combination. A `per_source_document` step with predecessors instead has one job per output
of its primary source (see `primary_source`). The lineages of a step that is split by items are the
items of its list (see the module `items`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from types import MappingProxyType

from waybook.dag.expansion.lineage import Origins
from waybook.dag.graph import Graph
from waybook.dag.model import JobType, RecipeStep, Strategy

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


def axis_values(axis: Axis, models: Sequence[str], prior: Origins) -> Sequence[str]:
    names = {Axis.LINEAGE: prior.lineages, Axis.REVIEWER: prior.authors, Axis.MODEL: models}
    return names[axis]


def unit_count(strategy: Strategy, models: Sequence[str], prior: Origins) -> int:
    return prod(len(axis_values(axis, models, prior)) for axis in GRANULARITY[strategy].axes)


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
    """Return the model that continues each lineage: its first author, if possible.

    >>> prior = Origins(lineages=("x", "y"), authors=("a", "b"), first_author={"x": "a", "y": "b"})
    >>> lineage_owners(["b", "c"], prior)
    {'x': 'b', 'y': 'b'}
    """
    present = frozenset(models)
    return {
        lineage: author if author in present else _in_turn(models, place)
        for place, (lineage, author) in enumerate(prior.first_author.items())
    }


def _in_turn(models: Sequence[str], place: int) -> str:
    return models[place % len(models)] if models else NO_MODEL
