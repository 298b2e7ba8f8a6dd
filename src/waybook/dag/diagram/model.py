"""Data model of a diagram, and the dimensions of its boxes.

Each stage is a lane of steps with edges, and a plan is a single lane.
"""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from unicodedata import combining, east_asian_width

from waybook.dag.graph import Graph
from waybook.dag.model import Stage
from waybook.dag.progress.structure import Structure, stage_order

#: Minimum number of steps that are drawn as one stack. Stacked steps have the same kind,
#: predecessors and successors.
STACK_FROM = 9


@dataclass(frozen=True, slots=True)
class DiagramStep:
    key: str
    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    slug: str
    #: Name of the stage. Empty for a plan.
    name: str
    steps: tuple[DiagramStep, ...]
    edges: tuple[tuple[str, str], ...] = ()
    is_collapsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    name: str
    lanes: tuple[Lane, ...]
    transitions: tuple[tuple[str, str], ...] = ()


def diagram_from_structure(structure: Structure) -> Diagram:
    dag = structure.dag
    stages = {stage.slug: stage for stage in dag.stages}
    return Diagram(
        name=dag.name or dag.slug,
        lanes=tuple(_lane(stages[slug], structure.graphs.get(slug)) for slug in stage_order(dag)),
        transitions=tuple(dict.fromkeys((way.source, way.target) for way in dag.transitions)),
    )


def diagram_of_stages(structure: Structure) -> Diagram:
    diagram = diagram_from_structure(structure)
    stages = tuple(
        DiagramStep(lane.slug, f"{lane.name} ({len(lane.steps):,} steps)") for lane in diagram.lanes
    )
    lane = Lane(slug="", name="", steps=stages, edges=diagram.transitions)
    return Diagram(name=diagram.name, lanes=(lane,))


def diagram_of_stage(structure: Structure, slug: str) -> Diagram:
    diagram = diagram_from_structure(structure)
    lanes = tuple(lane for lane in diagram.lanes if lane.slug == slug)
    return Diagram(name=diagram.name, lanes=lanes)


def _lane(stage: Stage, graph: Graph | None) -> Lane:
    steps = {step.key: step for step in stage.recipe.steps}.values()
    return Lane(
        slug=stage.slug,
        name=stage.name or stage.slug,
        steps=tuple(
            DiagramStep(step.key, step.name or step.key, f"{step.job_type} {step.strategy}")
            for step in steps
        ),
        edges=stage.recipe.edges if graph else (),
    )


def exceeds(lane: Lane, boxes: int) -> bool:
    if len(lane.steps) <= boxes:
        return False
    before, after = (dict.fromkeys((step.key for step in lane.steps), 0) for _ in range(2))
    for source, target in dict.fromkeys(lane.edges):
        after[source] += hash(target)
        before[target] += hash(source)
    families = Counter((before[step.key], after[step.key], step.kind) for step in lane.steps)
    return sum(1 if size >= STACK_FROM else size for size in families.values()) > boxes


def steps_around(lane: Lane, key: str, most: int) -> Lane:
    neighbors: dict[str, list[str]] = defaultdict(list)
    for source, target in lane.edges:
        neighbors[source].append(target)
        neighbors[target].append(source)
    near, waiting = {key}, deque([key])
    while waiting and len(near) < most:
        for other in neighbors[waiting.popleft()]:
            if other not in near and len(near) < most:
                near.add(other)
                waiting.append(other)
    return replace(
        lane,
        steps=tuple(step for step in lane.steps if step.key in near),
        edges=tuple((s, t) for s, t in lane.edges if s in near and t in near),
    )


_BY_WIDTH = {
    222: "ijl'",
    278: " !,./:;I[\\]ft|",
    333: "()-`r{}",
    389: '"*',
    500: "ckvxyzJs^",
    556: "#$0123456789?_abdeghnopquL",
    584: "+<=>~",
    611: "FTZ",
    667: "&ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "Mm",
    889: "%",
    944: "W",
    1015: "@",
}
WIDTHS: Mapping[str, int] = MappingProxyType(
    {letter: width for width, letters in _BY_WIDTH.items() for letter in letters}
)
UNKNOWN, WIDE_CHARACTER_WIDTH, NONE = 620, 1000, 0
#: Factor by which text widths are increased, so that a text also fits in a wide font.
_WIDTH_MARGIN = 1.15
_ELLIPSIS = "…"
_MAX_MEASURED_LENGTH = 400


def text_width(text: str, size: int) -> float:
    """Return the width of a text in pixels.

    >>> text_width("will", 10) < text_width("www", 10)
    True
    """
    return sum(map(_width, text)) * size * _WIDTH_MARGIN / 1000


def _width(character: str) -> int:
    known = WIDTHS.get(character)
    if known is not None:
        return known
    if combining(character):
        return NONE
    return WIDE_CHARACTER_WIDTH if east_asian_width(character) in "WF" else UNKNOWN


def truncate(text: str, room: float, size: int) -> str:
    """Return the text, cut and ended with an ellipsis if it is wider than `room` pixels.

    >>> truncate("Prepare the header", 62, 12)
    'Prepare…'
    """
    text = text[:_MAX_MEASURED_LENGTH]
    if text_width(text, size) <= room:
        return text
    left = room - text_width(_ELLIPSIS, size)
    kept_length = sum(
        width <= left for width in accumulate(text_width(character, size) for character in text)
    )
    return text[:kept_length].rstrip() + _ELLIPSIS


def wrap(text: str, room: float, size: int, lines: int) -> list[str]:
    """Break the text between words into at most `lines` lines. The last line is truncated.

    >>> wrap("Pairwise synthesis of the business case", 140, 12, 2)
    ['Pairwise synthesis of', 'the business case']
    """
    words = text[:_MAX_MEASURED_LENGTH].split()
    wrapped: list[str] = []
    while words and len(wrapped) < lines - 1:
        line = words.pop(0)
        while words and text_width(f"{line} {words[0]}", size) <= room:
            line += f" {words.pop(0)}"
        wrapped.append(truncate(line, room, size))
    return [*wrapped, truncate(" ".join(words), room, size)] if words else wrapped


#: A diagram with at least this many boxes is drawn with small boxes.
_COMPACT_FROM = 400
NAME_SIZE, WORD_SIZE = 12, 11
TEXT_LEFT, TEXT_RIGHT = 30, 8
_ASPECT = 1.5
MIN_COLUMNS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    box_width: int = 188
    box_height: int = 44
    name_lines: int = 1
    row_gap: int = 14
    passing_gap: int = 9
    line_gap: int = 7
    column_gap: int = 44
    band_gap: int = 26
    pitch: int = 6
    margin: int = 14
    padding: int = 16
    heading: int = 30
    narrowest: int = 420
    lane_gap: int = 34
    longest_passing: int = 6
    compact: bool = False

    @property
    def name_width(self) -> int:
        return self.box_width - TEXT_LEFT - TEXT_RIGHT


_COMPACT = Dimensions(
    box_width=136,
    box_height=24,
    row_gap=9,
    passing_gap=6,
    line_gap=5,
    column_gap=28,
    band_gap=16,
    pitch=4,
    longest_passing=4,
    compact=True,
)


def dimensions_for(sketch: Diagram, boxes: int) -> Dimensions:
    if boxes >= _COMPACT_FROM:
        return _COMPACT
    measures, names = Dimensions(), (step.name for lane in sketch.lanes for step in lane.steps)
    if all(text_width(name, NAME_SIZE) <= measures.name_width for name in names):
        return measures
    return replace(measures, name_lines=2, box_height=measures.box_height + 15)


def columns_in(width: int, measures: Dimensions) -> int:
    across = measures.box_width + measures.column_gap
    return max(1, (width - 2 * (measures.margin + measures.padding)) // across)


def columns_for(rows: Sequence[int], measures: Dimensions) -> int:
    """Return the smallest number of columns that makes a diagram 1.5 times as wide as high.

    The result is at least `MIN_COLUMNS`. `rows` has the number of boxes in each column.

    >>> columns_for([1] * 200, Dimensions()), columns_for([9] * 20, Dimensions())
    (10, 10)
    """
    across, down = measures.box_width + measures.column_gap, measures.box_height + measures.row_gap
    between = measures.band_gap + measures.pitch - measures.row_gap

    def is_high(columns: int) -> bool:
        bands = [max(rows[start : start + columns]) for start in range(0, len(rows), columns)]
        return columns * across < _ASPECT * (sum(bands) * down + len(bands) * between)

    column_count = bisect_left(
        range(len(rows)), 1, key=lambda columns: not is_high(max(1, columns))
    )
    return max(MIN_COLUMNS, column_count)
