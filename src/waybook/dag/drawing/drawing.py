"""A drawing: what is drawn and what is shown upon it, and all the forms it can be had in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from waybook.dag.definition import graphs_of, read_definition
from waybook.dag.drawing.layout import lay_out
from waybook.dag.drawing.marks import NO_MARKS, Marks, marks_of
from waybook.dag.drawing.mermaid import mermaid
from waybook.dag.drawing.outline import outline
from waybook.dag.drawing.sketch import Sketch, sketch_of
from waybook.dag.drawing.svg import draw
from waybook.dag.report import report
from waybook.dag.snapshot import read_snapshot
from waybook.dag.structure import counts_of, sound_structure, stage_order


class Form(StrEnum):
    SVG = "svg"
    MERMAID = "mermaid"
    MARKDOWN = "markdown"


@dataclass(frozen=True, slots=True)
class Drawing:
    sketch: Sketch
    marks: Marks = NO_MARKS


def drawn_as(form: Form, drawing: Drawing) -> str:
    """The drawing as a text that stands alone, for a file."""
    if form is Form.SVG:
        return draw(lay_out(drawing.sketch), drawing.marks, styled=True) + "\n"
    return _TEXTS[form](drawing.sketch, drawing.marks)


_TEXTS = MappingProxyType({Form.MERMAID: mermaid, Form.MARKDOWN: outline})


def drawing_of(data: object, models: Sequence[str] = ()) -> Drawing:
    """The drawing of a snapshot, or of a definition alone.

    `models` are those of the first stage, where nothing is said of them.

    Raises:
        InvalidInput: this is neither a snapshot nor a definition.
        BadRecipe: a definition that cannot be walked, or a snapshot without stages.
    """
    if isinstance(data, Mapping) and "dag" not in data and "stages" in data:
        return _definition(data, models)
    snapshot = read_snapshot(data)
    found = {slug: one.models for slug, one in snapshot.seen.items() if one.models}
    expected = counts_of(snapshot.structure, found)
    told = report(snapshot.structure, snapshot.seen, snapshot.warnings)
    return Drawing(sketch_of(snapshot.structure), marks_of(told, expected=expected))


def _definition(data: object, models: Sequence[str]) -> Drawing:
    dag = read_definition(data, strict=False)
    structure = sound_structure(dag, graphs_of(dag))
    expected = counts_of(structure, {stage_order(dag)[0]: tuple(models)}) if models else {}
    told = report(structure, {})
    return Drawing(sketch_of(structure), marks_of(told, expected=expected) if models else NO_MARKS)
