"""Draws a diagram as SVG, and exports it as SVG, Mermaid or text.

The SVG has no scripts and no external references, so that it looks the same on a page, in a chat,
and as a file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from waybook.core.shown import FINISHED, NO_STATUS, Shown, word_of
from waybook.dag.definitions.definition import read_graphs
from waybook.dag.diagram.boxes import (
    LEGEND_HEIGHT,
    branch_lines,
    branch_list,
    draw_box,
    element,
    escape_text,
    icon,
    legend,
    statuses_of,
    text,
)
from waybook.dag.diagram.coordinates import Route
from waybook.dag.diagram.model import (
    WORD_SIZE,
    Diagram,
    diagram_from_structure,
    text_width,
    truncate,
)
from waybook.dag.diagram.routing import (
    EdgeLine,
    Frame,
    Layout,
    arrowhead_data,
    compute_layout,
    is_detour,
    path_data,
)
from waybook.dag.diagram.status_marks import (
    NO_ANNOTATIONS,
    Annotations,
    aggregate_status,
    annotations_from_report,
)
from waybook.dag.diagram.text import markdown_outline, mermaid
from waybook.dag.model import DrawingFormat
from waybook.dag.progress.report import report
from waybook.dag.progress.structure import stage_order, structure_counts, valid_structure
from waybook.dag.snapshots.snapshot import is_definition, read_snapshot

_StepUrl = Callable[[str, str], str | None]
_StageUrl = Callable[[str], str | None]
_HEADING_SIZE = 13
NOTE_LEFT, NOTE_HEIGHT = 14, 24
COLLAPSED_MARK, EXPANDED_MARK = "▸ ", "▾ "


def render_svg(
    layout: Layout,
    marks: Annotations = NO_ANNOTATIONS,
    *,
    address: _StepUrl | None = None,
    heading_url: _StageUrl | None = None,
    styled: bool = False,
    live: bool = False,
) -> str:
    """Return the diagram as SVG.

    `styled` embeds the style sheet. With `live`, a page can replace the elements that change with
    the status of steps.
    """
    statuses = [aggregate_status(statuses_of(box, layout, marks)) for box in layout.boxes]
    compact = layout.measures.compact
    below, wide = legend(layout, marks, layout.height) if compact else ("", 0)
    note = _undrawn_note(layout)
    wide = max(wide, 2 * NOTE_LEFT + round(text_width(note, WORD_SIZE)) if note else 0)
    width, height = max(layout.width, wide), layout.height + (LEGEND_HEIGHT if compact else 0)
    noted = text(NOTE_LEFT, height + NOTE_HEIGHT // 2, note, "note") if note else ""
    height += NOTE_HEIGHT if note else 0
    listed, list_width, list_height = branch_list(layout, marks, height)
    width, height = max(width, list_width), height + list_height
    summary = _summary(layout, marks)
    parts = [
        _marked("map-title", element("title", escape_text(summary), id="map-title"))
        if live
        else element("title", escape_text(summary)),
        f"<style>{style_sheet()}</style>" if styled else "",
        element("rect", class_="ground", width=width, height=height),
        *_transitions(layout, marks),
        *branch_lines(layout, marks),
        *_lanes(layout, marks, statuses, address, heading_url, live=live),
        _group("map-legend", below, live=live),
        noted,
        _group("map-branches", listed, live=live),
    ]
    return element(
        "svg",
        "".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="waymap compact" if compact else "waymap",
        # A screen reader ignores links inside an element with the role `img`.
        role="group" if address else "img",
        aria_label=None if live else summary,
        aria_labelledby="map-title" if live else None,
    )


#: Characters before and after each element that changes with the status of steps. No text in a
#: diagram contains them.
MARK, END_MARK = "\x02", "\x03"


def _marked(element_id: str, drawn: str) -> str:
    return f"{MARK}{element_id}{MARK}{drawn}{END_MARK}"


def _group(name: str, drawn: str, *, live: bool) -> str:
    return _marked(name, element("g", drawn, id=name)) if live and drawn else drawn


@cache
def style_sheet() -> str:
    source = files("waybook.dag.diagram").joinpath("map.css").read_text("utf-8")
    lines = (line.strip() for line in source.splitlines())
    return "".join(line for line in lines if not line.startswith("/*"))


def _summary(layout: Layout, marks: Annotations) -> str:
    steps = [(lane.slug, step.key) for lane in layout.sketch.lanes for step in lane.steps]
    counts = Counter(marks.step(*step).status for step in steps)
    done = sum(count for status, count in counts.items() if status in FINISHED)
    others = "".join(
        f", {count} {word_of(status).lower()}"
        for status, count in counts.items()
        if status not in FINISHED
    )
    summary = f"{done} of {len(steps)} steps done{others}" if marks.steps else f"{len(steps)} steps"
    note = _undrawn_note(layout)
    return f"{layout.sketch.name[:200]}: {summary}" + (f"; {note}" if note else "")


def _undrawn_note(layout: Layout) -> str:
    if not layout.undrawn:
        return ""
    return f"{layout.undrawn:,} dependencies are not drawn: there are too many to tell them apart"


def _lanes(
    layout: Layout,
    marks: Annotations,
    statuses: list[str],
    address: _StepUrl | None,
    heading_url: _StageUrl | None,
    *,
    live: bool,
) -> Iterator[str]:
    frames = {frame.lane: frame for frame in layout.frames}
    lines: dict[int, list[EdgeLine]] = {}
    for line in layout.lines:
        lines.setdefault(layout.boxes[line.source].lane, []).append(line)
    boxes: dict[int, list[str]] = {}
    for place, (box, status) in enumerate(zip(layout.boxes, statuses, strict=True)):
        name = f"box-{place}" if live else None
        drawn = draw_box(box, layout, marks, status, address, name)
        boxes.setdefault(box.lane, []).append(_marked(name, drawn) if name else drawn)
    for number, lane in enumerate(layout.sketch.lanes):
        heading = "".join(_heading(layout, frames.get(number), marks, heading_url))
        inner = [
            _group(f"lane-{number}", heading, live=live),
            *_edges(lines.get(number, ()), statuses, live=live),
            *boxes.get(number, ()),
        ]
        status = marks.stage(lane.slug).status
        yield element("g", "".join(inner), class_="stage", data_stage=lane.slug, data_status=status)


def _heading(
    layout: Layout, frame: Frame | None, marks: Annotations, url: _StageUrl | None
) -> Iterator[str]:
    if frame is None:
        return
    lane, measures = layout.sketch.lanes[frame.lane], layout.measures
    mark = marks.stage(lane.slug)
    left, base = frame.x + measures.padding, frame.y + 25
    room = frame.width - 2 * measures.padding
    where = url(lane.slug) if url else None
    fold = "" if where is None else COLLAPSED_MARK if lane.is_collapsed else EXPANDED_MARK
    name = fold + truncate(lane.name, room * 0.5, _HEADING_SIZE)
    yield element(
        "rect", x=frame.x, y=frame.y, width=frame.width, height=frame.height, rx=10, class_="frame"
    )
    named = text(left, base, name, "name")
    yield named if where is None else element("a", named, href=where)
    # The name is bold, and `text_width` measures regular letters, which are narrower.
    left += round(text_width(name, _HEADING_SIZE) * 1.1) + 20
    word = word_of(mark.status)
    yield icon(left, base - 4, mark.status)
    yield text(left + 12, base, word, "word")
    left += 12 + round(text_width(word, WORD_SIZE)) + 14 if word else 0
    room = frame.x + frame.width - measures.padding - left
    count = len(layout.sketch.lanes[frame.lane].steps)
    size = "1 step" if count == 1 else f"{count} steps"
    yield text(left, base, truncate(mark.note or size, room, WORD_SIZE), "note")


def _edges(lines: Iterable[EdgeLine], statuses: list[str], *, live: bool) -> Iterator[str]:
    """Yield SVG elements for all edges. With `live`, the edges from each box are in one element.

    When a step completes, a page then has to replace only the element of the step's box.
    """
    by_source: dict[int | None, list[EdgeLine]] = {}
    for line in lines:
        by_source.setdefault(line.source if live else None, []).append(line)
    for source, some in by_source.items():
        groups: dict[tuple[bool, bool], list[EdgeLine]] = {kind: [] for kind in _EDGE_DRAW_ORDER}
        for line in some:
            groups[statuses[line.source] in FINISHED, is_detour(line.route)].append(line)
        drawn = "".join(
            _paths([line.route for line in group], "edges around" if around else "edges", gone)
            for (gone, around), group in groups.items()
            if group
        )
        yield _group(f"edges-{source}", drawn, live=live)


def _paths(routes: Sequence[Route], kind: str, gone: bool) -> str:  # noqa: FBT001 - a status
    status = "completed" if gone else Shown.TODO
    heads = "".join(dict.fromkeys(map(arrowhead_data, routes)))
    lines = element("path", class_=kind, data_status=status, d="".join(map(path_data, routes)))
    return lines + element("path", class_="heads", data_status=status, d=heads)


_EDGE_DRAW_ORDER = ((False, True), (True, True), (False, False), (True, False))


def _transitions(layout: Layout, marks: Annotations) -> Iterator[str]:
    for way_on in layout.transitions:
        status = marks.stage(layout.sketch.lanes[way_on.target].slug).status
        yield _paths([way_on.route], "edges", status not in {Shown.TODO, NO_STATUS})
        if way_on.target == way_on.source + 1:
            caption = marks.captions.get(layout.sketch.lanes[way_on.source].slug, "")
            (x, top), (_, bottom) = way_on.route
            shown = truncate(caption, layout.width - x - 4 * layout.measures.margin, WORD_SIZE)
            yield text(x + 14, (top + bottom) // 2 + 4, shown, "note")


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


def drawing_from_snapshot(data: object, models: Sequence[str] = ()) -> Drawing:
    """Return the diagram of a run snapshot or a workflow definition.

    `models` are the models of the first stage. They are ignored if the data is a snapshot.

    Raises:
        InvalidInput: the data is neither a snapshot nor a definition.
        BadRecipe: the definition is invalid, or the snapshot has no stages.
    """
    if is_definition(data):
        dag, graphs = read_graphs(data, strict=False)
        structure = valid_structure(dag, graphs)
        if not models:
            return Drawing(diagram_from_structure(structure))
        progress, by_stage = report(structure, {}), {stage_order(dag)[0]: tuple(models)}
    else:
        snapshot = read_snapshot(data)
        structure, evidence = snapshot.structure, snapshot.evidence
        progress = report(structure, evidence, snapshot.warnings)
        by_stage = {slug: seen.models for slug, seen in evidence.items() if seen.models}
    marks = annotations_from_report(progress, expected=structure_counts(structure, by_stage))
    return Drawing(diagram_from_structure(structure), marks)
