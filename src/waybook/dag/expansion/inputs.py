"""Selects the input documents of a job.

An input that no step produces is external: it is the run's input or a person's feedback. For any
other input, a job gets the documents of its lineage (chain of documents), of its reviewer or of its
model. If no document matches, the job gets all documents of the input. If a job is for one item of
a list, it gets the item instead of the list.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from waybook.dag.expansion.units import Unit
from waybook.dag.graph import Graph, output_keys, primary_source
from waybook.dag.model import Dag, Input, RecipeStep, Strategy

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
