"""Splits a step into jobs, and names the outputs of each job.

A unit is the work of one job, before the job is stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from waybook.dag.expansion.granularity import (
    GRANULARITY,
    Axis,
    Descent,
    Worker,
    axis_values,
    fans_out,
    first_of,
    lineage_owners,
)
from waybook.dag.expansion.items import ITEM_STRATEGIES, NO_ITEMS, ItemOrigins, split_origins
from waybook.dag.expansion.lineage import Origins, ProducedDocument, distinct, lineage_name
from waybook.dag.graph import Graph, primary_source
from waybook.dag.model import RecipeStep, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    step_key: str
    number: int
    model: str
    #: Lineage that the job continues. Empty if the job begins one.
    lineage: str | None = None
    reviewer: str | None = None
    source: ProducedDocument | None = None
    #: Place of the job's item in the list of the step. None if the step is not split by items.
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
    points = product(*(axis_values(axis, models, prior) for axis in row.axes))
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
