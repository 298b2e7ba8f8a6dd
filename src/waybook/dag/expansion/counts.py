"""Computes how many jobs and outputs each step will have, before any work begins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from waybook.dag.expansion.units import (
    AXES,
    NO_ITEMS,
    Axis,
    ItemOrigins,
    Origins,
    distinct,
    fans_out,
    first_of,
    lineage_name,
    lineage_owners,
    merge_origins,
    single_author_origins,
    split_origins,
    unit_count,
)
from waybook.dag.graph import Graph, output_keys, primary_source
from waybook.dag.model import JobType, RecipeStep, Stage, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCounts:
    units: Mapping[str, int]
    outputs: Mapping[str, int]
    total: int
    #: Lineages (chains of documents) and authors of the final outputs. The next stage continues
    #: these lineages.
    leaves: Origins
    #: Only for steps whose number of jobs depends on a list of unknown length: the maximum number
    #: of jobs, or None if the list has no declared limit. `units` contains the minimum numbers.
    limits: Mapping[str, int | None] = field(default_factory=dict)

    def jobs(self, key: str) -> "Count":
        number = self.units[key]
        return Count(None, self.limits[key]) if key in self.limits else Count(number, number)

    @property
    def total_jobs(self) -> "Count":
        return (
            add_counts(map(self.jobs, self.units)) if self.limits else Count(self.total, self.total)
        )


class Count(NamedTuple):
    """A number that is known, bounded (only `at_most` is known) or unknown (both are None)."""

    known: int | None = None
    at_most: int | None = None

    def __str__(self) -> str:
        if self.known is not None:
            return f"{self.known:,}"
        return "unknown" if self.at_most is None else f"at most {self.at_most:,}"

    @property
    def jobs_text(self) -> str:
        if self.at_most is None:
            return "jobs not known yet"
        return f"{self} job{'' if self.known == 1 else 's'}"


def add_counts(counts: Iterable[Count]) -> Count:
    parts = [*counts]
    return Count(_sum(part.known for part in parts), _sum(part.at_most for part in parts))


def _sum(numbers: Iterable[int | None]) -> int | None:
    parts = [*numbers]
    known = [number for number in parts if number is not None]
    return sum(known) if len(known) == len(parts) else None


def expected_counts(
    stage: Stage,
    graph: Graph,
    models: Sequence[str],
    prior: Origins,
    items: ItemOrigins = NO_ITEMS,
) -> StageCounts:
    """Count the jobs and outputs of a stage.

    `items` has the items of each step that has one job per item of a list.
    """
    models = distinct(models)
    units: dict[str, int] = {}
    outputs: dict[str, int] = {}
    unit_counts: dict[tuple[Strategy, int], int] = {}
    begun_by: dict[str, str] = {}
    for key in graph.order:
        step = graph.steps[key]
        source = primary_source(step, stage.slug, graph)
        if step.skip:
            units[key] = outputs[key] = 0
        elif source is not None:
            units[key] = outputs[key] = outputs[source]
        else:
            origins = split_origins(step, stage, prior, items)
            split = step.strategy, id(origins)
            if split not in unit_counts:
                unit_counts[split] = unit_count(step.strategy, models, origins)
            units[key] = unit_counts[split]
            outputs[key] = len(models) if fans_out(step, graph) else units[key]
        begun_by[key] = key if source is None else begun_by[source]
    fruitful = dict.fromkeys(begun_by[key] for key in graph.leaves if outputs[key])
    steps = [graph.steps[key] for key in fruitful]
    sources = {step.key: split_origins(step, stage, prior, items) for step in steps}
    left = _begun(stage.slug, graph, steps, models, sources)
    return StageCounts(
        units=units, outputs=outputs, total=sum(units.values()), leaves=merge_origins(left)
    )


def _begun(
    stage: str,
    graph: Graph,
    steps: Iterable[RecipeStep],
    models: Sequence[str],
    sources: Mapping[str, Origins],
) -> Iterable[Origins]:
    seen: set[tuple[Strategy, int]] = set()
    for step in steps:
        axes, prior = AXES[step.strategy], sources[step.key]
        if Axis.LINEAGE not in axes:
            one_each = Axis.MODEL in axes or fans_out(step, graph)
            yield single_author_origins(
                {lineage_name(stage, step.key, model): model for model in models}
                if one_each
                else {lineage_name(stage, step.key): first_of(models)}
            )
        elif (split := (step.strategy, id(prior))) not in seen:
            seen.add(split)
            if axes == (Axis.LINEAGE,):
                yield single_author_origins(lineage_owners(models, prior))
            else:
                first = dict.fromkeys(prior.lineages, first_of(models))
                yield Origins(first_author=first, authors=tuple(models))


def rendered_keys(stage: Stage) -> Mapping[str, frozenset[str]]:
    """Return, for each step, the keys of the documents for people to read.

    These are the outputs with a template or, if no output has one, all outputs of EXECUTE steps.
    """
    steps = stage.recipe.steps
    if any(output.render for step in steps for output in step.outputs):
        return {
            step.key: frozenset(output.document_key for output in step.outputs if output.render)
            for step in steps
        }
    return {
        step.key: frozenset(output_keys(step)) for step in steps if step.job_type is JobType.EXECUTE
    }


def documents_expected(stage: Stage, counts: StageCounts) -> int | None:
    """Return the number of documents for people to read, or None while it is unknown."""
    rendered = {step: len(keys) for step, keys in rendered_keys(stage).items() if keys}
    if not counts.limits.keys().isdisjoint(rendered):
        return None
    return sum(number * counts.outputs[step] for step, number in rendered.items())
