"""Hidden dependencies: steps that need a document of their stage and no edge says so.

A step may begin before a step that no path of edges puts before it, and then what it needs is not
there. A document may have several makers; one of them before the step is enough.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from waybook.dag.faults import Diagnostic
from waybook.dag.model import RecipeStep, Stage
from waybook.dag.recipe import Graph
from waybook.dag.sources import producers
from waybook.dag.warned import quote_name

#: Of a document with more makers than this, the rest is not asked for an edge to propose.
MAX_PRODUCERS_CHECKED = 20

#: Steps as the bits of a number, each at its place in the graph's order: joining two sets of ten
#: thousand steps is one operation.
Bits = int


def hidden_dependencies(stage: Stage, graph: Graph, at: str) -> Iterator[Diagnostic]:
    """Every needed document of the stage that is made only by steps not before its reader."""
    makers = producers(stage)
    needs = [
        (number, place, step.key, document)
        for number, step in enumerate(stage.recipe.steps)
        for place, document in _needs(step, stage.slug)
        if document in makers
    ]
    if not needs:
        return
    bit = {key: 1 << place for place, key in enumerate(graph.order)}
    upto = _upto(graph, bit)
    made = {key: _joined(makers[key], bit) for key in {document for *_, document in needs}}
    for number, place, key, document in needs:
        if not made[document] & (upto[key] ^ bit[key]):
            where = f"{at}.steps[{number}].inputsRequired[{place}]"
            why = _told(key, makers[document], bit, upto)
            message = f"{quote_name(key)} needs {quote_name(document)}{why}"
            yield Diagnostic("hidden_dependency", where, message)


def _needs(step: RecipeStep, slug: str) -> Iterator[tuple[int, str]]:
    for place, wanted in enumerate(step.inputs or ()):
        if wanted.required and wanted.stage in {None, slug}:
            yield place, wanted.document_key


def _upto(graph: Graph, bit: Mapping[str, Bits]) -> Mapping[str, Bits]:
    """Each step and all that is before it."""
    upto: dict[str, Bits] = {}
    for key in graph.order:
        found = bit[key]
        for source in graph.predecessors[key]:
            found |= upto[source]
        upto[key] = found
    return upto


def _joined(keys: tuple[str, ...], bit: Mapping[str, Bits]) -> Bits:
    found = 0
    for key in keys:
        found |= bit[key]
    return found


def _told(
    key: str, makers: tuple[str, ...], bit: Mapping[str, Bits], upto: Mapping[str, Bits]
) -> str:
    """Who makes the document, and which edge would bring it, if one can."""
    others = [maker for maker in islice(makers, MAX_PRODUCERS_CHECKED) if maker != key]
    if not others:
        return ", which it alone makes"
    free = next((maker for maker in others if not upto[maker] & bit[key]), None)
    if free is None:
        return f", which {quote_name(others[0])} makes, and that step waits for this one"
    return (
        f", which {quote_name(free)} makes, and no path of edges leads here from there: "
        f"add the edge [{free!r}, {key!r}]"
    )
