"""Which documents a unit is given to work with: of each input, those that concern it.

An input that no step makes is external: it comes with the run, or from a person. Of the others a
unit gets the documents of its lineage, of its reviewer, or of its own model, as far as there are
such; else all there are.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from waybook.dag.expansion.lineage import ProducedDocument
from waybook.dag.expansion.units import Unit
from waybook.dag.graph import Graph, output_keys, primary_source
from waybook.dag.model import Dag, Input, RecipeStep, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The latest version of what a unit made."""

    id: str
    stage: str
    step_key: str
    document_key: str
    model: str
    lineage: str
    #: Whose review went into it, where its unit had a reviewer.
    reviewer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedInput:
    """An input, and what there is of it."""

    input: Input
    documents: tuple[Document, ...] = ()
    #: No step makes it: the run's input or a person's feedback stands in for it.
    external: bool = False

    @property
    def is_missing(self) -> bool:
        """Whether the unit needs it and nobody has made it yet."""
        return self.input.required and not self.external and not self.documents


@dataclass(frozen=True, slots=True)
class DocumentSlot:
    """Where documents stand on the shelf; what is None stands for any."""

    stage: str
    document_key: str
    lineage: str | None = None
    model: str | None = None


DocumentIndex = Mapping[DocumentSlot, tuple[Document, ...]]
#: A stage and the key of a document that a step of it makes.
ProducedDocuments = Collection[tuple[str, str]]


def index_documents(documents: Iterable[Document]) -> DocumentIndex:
    """The documents, found by every place a unit may look at."""
    shelf: dict[DocumentSlot, list[Document]] = {}
    for doc in documents:
        for lineage in (None, doc.lineage):
            for model in (None, doc.model):
                place = DocumentSlot(doc.stage, doc.document_key, lineage, model)
                shelf.setdefault(place, []).append(doc)
    return {place: tuple(found) for place, found in shelf.items()}


def produced_documents(dag: Dag) -> ProducedDocuments:
    """Everything the steps of a DAG make; any other input is external."""
    return frozenset(
        (stage.slug, key)
        for stage in dag.stages
        for step in stage.recipe.steps
        for key in output_keys(step)
    )


def resolve_inputs(
    unit: Unit, stage_slug: str, graph: Graph, shelf: DocumentIndex, made: ProducedDocuments
) -> tuple[ResolvedInput, ...]:
    """What this unit is given, input by input; an optional one of which there is nothing is not.

    A step that says nothing of inputs is given what its predecessors make.
    """
    step = graph.steps[unit.step_key]
    before = _before(step.key, graph)
    given: list[ResolvedInput] = []
    for number, wanted in enumerate(_inputs(step, graph)):
        place = DocumentSlot(
            stage_slug if wanted.stage is None else wanted.stage, wanted.document_key
        )
        primary = number == 0 or step.inputs is None
        if (place.stage, place.document_key) not in made:
            given.append(ResolvedInput(input=wanted, external=True))
        elif primary and unit.source is not None:
            maker = primary_source(step, stage_slug, graph)
            documents = _of_source(unit.source, maker, place, shelf)
            given.append(ResolvedInput(input=wanted, documents=documents))
        else:
            near = _nearness(place, unit, _author(unit, step, place, stage_slug))
            there = before if place.stage == stage_slug else None
            found = next(filter(None, (_standing(spot, shelf, there) for spot in near)), ())
            given.append(ResolvedInput(input=wanted, documents=found))
    return tuple(one for one in given if one.external or one.documents or one.is_missing)


def _before(key: str, graph: Graph) -> set[str]:
    """The steps that are closed for sure when this one opens; what others make may come or not."""
    found: set[str] = set()
    ahead = [*graph.predecessors[key]]
    while ahead:
        earlier = ahead.pop()
        if earlier not in found:
            found.add(earlier)
            ahead += graph.predecessors[earlier]
    return found


def _inputs(step: RecipeStep, graph: Graph) -> Iterable[Input]:
    if step.inputs is not None:
        return step.inputs
    before = [graph.steps[key] for key in graph.predecessors[step.key]]
    keys = dict.fromkeys(key for predecessor in before for key in output_keys(predecessor))
    return [Input(document_key=key, required=False) for key in keys]


def _of_source(
    source: ProducedDocument, maker: str | None, place: DocumentSlot, shelf: DocumentIndex
) -> tuple[Document, ...]:
    """The very document a unit goes by: that step's, with this author, lineage and reviewer."""
    here = replace(place, lineage=source.lineage, model=source.model)
    return tuple(
        document
        for document in shelf.get(here, ())
        if document.step_key == maker and document.reviewer == source.reviewer
    )


def _author(unit: Unit, step: RecipeStep, place: DocumentSlot, stage_slug: str) -> str | None:
    """Whose documents the unit would rather have."""
    if unit.reviewer is not None:
        return unit.reviewer
    own = step.strategy is Strategy.PER_MODEL and place.stage == stage_slug
    return unit.model if own else None


def _nearness(place: DocumentSlot, unit: Unit, author: str | None) -> Iterable[DocumentSlot]:
    """Where to look, the nearest first: of its lineage by the author, of its lineage, by anyone."""
    of_lineage = replace(place, lineage=unit.lineage)
    return (replace(of_lineage, model=author), of_lineage, replace(place, model=author), place)


def _standing(
    place: DocumentSlot, shelf: DocumentIndex, steps: set[str] | None
) -> tuple[Document, ...]:
    """What stands there; of the unit's own stage, what these steps made."""
    found = shelf.get(place, ())
    return found if steps is None else tuple(doc for doc in found if doc.step_key in steps)
