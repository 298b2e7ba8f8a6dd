"""A diagram with its status annotations, and its export formats."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from waybook.dag.definitions.definition import read_graphs
from waybook.dag.diagram.layout import compute_layout
from waybook.dag.diagram.model import Diagram, diagram_from_structure
from waybook.dag.diagram.status_marks import NO_ANNOTATIONS, Annotations, annotations_from_report
from waybook.dag.diagram.svg import render_svg
from waybook.dag.diagram.text import markdown_outline, mermaid
from waybook.dag.progress.report import report
from waybook.dag.progress.structure import stage_order, structure_counts, valid_structure
from waybook.dag.snapshots.snapshot import SnapshotFormat, is_definition, read_snapshot
from waybook.dag.statuses import DrawingFormat


@dataclass(frozen=True, slots=True)
class Drawing:
    diagram: Diagram
    annotations: Annotations = NO_ANNOTATIONS


def export_drawing(form: DrawingFormat, drawing: Drawing) -> str:
    if form is DrawingFormat.SVG:
        return render_svg(compute_layout(drawing.diagram), drawing.annotations, styled=True) + "\n"
    return _TEXTS[form](drawing.diagram, drawing.annotations)


_TEXTS = MappingProxyType(
    {DrawingFormat.MERMAID: mermaid, DrawingFormat.MARKDOWN: markdown_outline}
)


def drawing_from_snapshot(
    data: object, models: Sequence[str] = (), form: SnapshotFormat | None = None
) -> Drawing:
    """Return the diagram of a run snapshot or a workflow definition.

    `models` are used for the first stage if the data names none.

    Raises:
        InvalidInput: the data is neither a snapshot nor a definition.
        BadRecipe: the definition is invalid, or the snapshot has no stages.
    """
    if form is None and is_definition(data):
        return _definition(data, models)
    snapshot = read_snapshot(data, form)
    models_by_stage = {
        slug: evidence.models for slug, evidence in snapshot.evidence.items() if evidence.models
    }
    expected = structure_counts(snapshot.structure, models_by_stage)
    progress_report = report(snapshot.structure, snapshot.evidence, snapshot.warnings)
    return Drawing(
        diagram_from_structure(snapshot.structure),
        annotations_from_report(progress_report, expected=expected),
    )


def _definition(data: object, models: Sequence[str]) -> Drawing:
    dag, graphs = read_graphs(data, strict=False)
    structure = valid_structure(dag, graphs)
    expected = structure_counts(structure, {stage_order(dag)[0]: tuple(models)}) if models else {}
    progress_report = report(structure, {})
    return Drawing(
        diagram_from_structure(structure),
        annotations_from_report(progress_report, expected=expected) if models else NO_ANNOTATIONS,
    )
