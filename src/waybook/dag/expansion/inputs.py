"""Selects the input documents of a job.

An input that no step produces is external: it is the run's input or a person's feedback. For any
other input, a job gets the documents of its lineage (chain of documents), of its reviewer or of its
model. If no document matches, the job gets all documents of the input. If a job is for one item of
a list, it gets the item instead of the list.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from waybook.dag.expansion.units import (
    AXES,
    NO_ITEMS,
    Axis,
    ItemOrigins,
    Origins,
    Unit,
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
from waybook.dag.model import Dag, Input, JobType, RecipeStep, Stage, Strategy

FEEDBACK = "feedback"
#: A job of a step with such a strategy gets the documents that its own model wrote in the stage.
_OWN_DOCUMENTS = frozenset({Strategy.PER_MODEL, Strategy.PER_ITEM_AND_MODEL})


class Document(NamedTuple):
    id: str
    stage: str
    step_key: str
    document_key: str
    model: str
    lineage: str
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedInput:
    input: Input
    documents: tuple[Document, ...] = ()
    external: bool = False
    #: Position of the job's item, if the step has one job per item of this input.
    item: int | None = None

    @property
    def is_supplied(self) -> bool:
        return bool(self.external or self.documents or self.item)

    @property
    def is_missing(self) -> bool:
        return self.input.required and not self.is_supplied


class DocumentSlot(NamedTuple):
    """Key for finding documents. A lineage or model of None matches any lineage or model."""

    stage: str
    document_key: str
    lineage: str | None = None
    model: str | None = None


_DocumentIndex = Mapping[DocumentSlot, tuple[Document, ...]]
ProducedDocuments = Collection[tuple[str, str]]


def index_documents(documents: Iterable[Document]) -> _DocumentIndex:
    shelf: dict[DocumentSlot, list[Document]] = {}
    for doc in documents:
        for lineage in (None, doc.lineage):
            for model in (None, doc.model):
                place = DocumentSlot(doc.stage, doc.document_key, lineage, model)
                shelf.setdefault(place, []).append(doc)
    return {place: tuple(docs) for place, docs in shelf.items()}


def produced_documents(dag: Dag) -> ProducedDocuments:
    return frozenset(
        (stage.slug, key)
        for stage in dag.stages
        for step in stage.recipe.steps
        for key in output_keys(step)
    )


def resolve_inputs(
    unit: Unit, stage_slug: str, graph: Graph, shelf: _DocumentIndex, made: ProducedDocuments
) -> tuple[ResolvedInput, ...]:
    """Return the inputs of a job, without optional inputs that have no documents.

    A step that declares no inputs gets the outputs of its predecessors.
    """
    return listed_inputs(resolve_all(unit, stage_slug, graph, shelf, made))


def listed_inputs(resolved: Iterable[ResolvedInput]) -> tuple[ResolvedInput, ...]:
    return tuple(item for item in resolved if item.is_supplied or item.input.required)


def input_slots(
    unit: Unit, stage_slug: str, graph: Graph, made: ProducedDocuments
) -> list[DocumentSlot]:
    """Return the keys with which the inputs of a job are looked up first."""
    step = graph.steps[unit.step_key]
    slots = []
    for number, wanted in enumerate(_inputs(step, graph)):
        if number == 0 and unit.item is not None:
            continue
        primary = number == 0 or step.inputs is None
        lineage = unit.source.lineage if primary and unit.source is not None else unit.lineage
        slots.append(_slot(wanted, stage_slug)._replace(lineage=lineage))
    return [slot for slot in slots if (slot.stage, slot.document_key) in made]


def unresolved_slots(resolved: Iterable[ResolvedInput], stage_slug: str) -> list[DocumentSlot]:
    """Return, for each input without documents, a key that matches any lineage."""
    return [_slot(item.input, stage_slug) for item in resolved if not item.is_supplied]


def _slot(wanted: Input, stage_slug: str) -> DocumentSlot:
    return DocumentSlot(stage_slug if wanted.stage is None else wanted.stage, wanted.document_key)


def resolve_all(
    unit: Unit, stage_slug: str, graph: Graph, shelf: _DocumentIndex, made: ProducedDocuments
) -> list[ResolvedInput]:
    step = graph.steps[unit.step_key]
    inputs: list[ResolvedInput] = []
    for number, wanted in enumerate(_inputs(step, graph)):
        place = _slot(wanted, stage_slug)
        primary = number == 0 or step.inputs is None
        if number == 0 and unit.item is not None:
            inputs.append(ResolvedInput(input=wanted, item=unit.item))
        elif (place.stage, place.document_key) not in made:
            inputs.append(ResolvedInput(input=wanted, external=True))
        elif primary and unit.source is not None:
            maker = primary_source(step, stage_slug, graph)
            source = unit.source
            here = place._replace(lineage=source.lineage, model=source.model)
            documents = tuple(
                document
                for document in shelf.get(here, ())
                if document.step_key == maker and document.reviewer == source.reviewer
            )
            inputs.append(ResolvedInput(input=wanted, documents=documents))
        else:
            documents = _nearest(place, unit, stage_slug, graph, shelf)
            inputs.append(ResolvedInput(input=wanted, documents=documents))
    return inputs


def _before(key: str, graph: Graph) -> set[str]:
    if key in graph.ancestors:
        return graph.ancestors[key]
    ancestors: set[str] = set()
    ahead = [*graph.predecessors[key]]
    while ahead:
        earlier = ahead.pop()
        if earlier not in ancestors:
            ancestors.add(earlier)
            ahead += graph.predecessors[earlier]
    graph.ancestors[key] = ancestors
    return ancestors


def _inputs(step: RecipeStep, graph: Graph) -> Iterable[Input]:
    if step.inputs is not None:
        return step.inputs
    before = [graph.steps[key] for key in graph.predecessors[step.key]]
    keys = dict.fromkeys(key for predecessor in before for key in output_keys(predecessor))
    return [Input(document_key=key, required=False) for key in keys]


def _nearest(
    place: DocumentSlot, unit: Unit, stage_slug: str, graph: Graph, shelf: _DocumentIndex
) -> tuple[Document, ...]:
    """Return the documents of the job's lineage and author, else of one of the two, else all."""
    is_here = place.stage == stage_slug
    is_own = is_here and graph.steps[unit.step_key].strategy in _OWN_DOCUMENTS
    own_model = unit.model if is_own else None
    author = own_model if unit.reviewer is None else unit.reviewer
    before = _before(unit.step_key, graph) if is_here else None
    for slot in (
        place._replace(lineage=unit.lineage, model=author),
        place._replace(lineage=unit.lineage),
        place._replace(model=author),
        place,
    ):
        documents = shelf.get(slot, ())
        if before is not None:
            documents = tuple(doc for doc in documents if doc.step_key in before)
        if documents:
            return documents
    return ()


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
