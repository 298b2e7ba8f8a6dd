"""Draws the boxes of a diagram, and the branches and loops between them, as SVG."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from html import escape
from typing import Final

from waybook.core.hidden_characters import replace_hidden
from waybook.core.shown import FINISHED, LOOKS, NO_STATUS, look_of, word_of
from waybook.dag.diagram.model import (
    NAME_SIZE,
    TEXT_LEFT,
    TEXT_RIGHT,
    WORD_SIZE,
    Dimensions,
    text_width,
    truncate,
    wrap,
)
from waybook.dag.diagram.routing import Box, Layout
from waybook.dag.diagram.status_marks import (
    BRANCH_MARK,
    Annotations,
    Branch,
)

FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "\ufffd"
#: Most texts match this pattern and need no escaping.
_PLAIN_TEXT: Final = re.compile(r"[\w .,:;/()+-]*")


def escape_text(text: str) -> str:
    r"""Return a text escaped for use in SVG content and attribute values.

    >>> escape_text('<a href="x"> \x01 & co')
    '&lt;a href=&quot;x&quot;&gt; � &amp; co'
    """
    if _PLAIN_TEXT.fullmatch(text):
        return text
    return escape(FORBIDDEN.sub(REPLACEMENT, replace_hidden(text, REPLACEMENT)))


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an SVG element. Attributes that are `None` are left out.

    >>> element("rect", width=3, class_="box", data_step="a<b", rx=None)
    '<rect width="3" class="box" data-step="a&lt;b"/>'
    """
    start = name
    for key, value in attributes.items():
        if value is not None:
            shown = escape_text(value) if isinstance(value, str) else value
            start += f' {key.rstrip("_").replace("_", "-")}="{shown}"'
    return f"<{start}>{content}</{name}>" if content else f"<{start}/>"


def text(x: int, y: int, content: str, class_: str | None = None, **attributes: object) -> str:
    if not content:
        return ""
    return element("text", escape_text(content), x=x, y=y, class_=class_, **attributes)


LEGEND_HEIGHT = 30
_LINE_HEIGHT = 15
_STACK_OFFSET = 4
MAX_TITLE_LENGTH = 300
_TIMES_SIGN = "\N{MULTIPLICATION SIGN}"


def icon(x: int, y: int, status: str) -> str:
    shape = look_of(status).icon
    return element("path", class_="icon", d=f"M{x} {y}{shape}") if shape else ""


def statuses_of(box: Box, layout: Layout, marks: Annotations) -> list[str]:
    lane = layout.sketch.lanes[box.lane]
    return [marks.step(lane.slug, lane.steps[step].key).status for step in box.steps]


def draw_box(
    box: Box,
    layout: Layout,
    marks: Annotations,
    status: str,
    address: Callable[[str, str], str | None] | None,
    element_id: str | None = None,
) -> str:
    lane, measures, many = layout.sketch.lanes[box.lane], layout.measures, len(box.steps)
    first, counts = lane.steps[box.steps[0]], Counter(statuses_of(box, layout, marks))
    if many == 1:
        name, note = first.name, marks.step(lane.slug, first.key).note
    else:
        name, done = f"{many} {_TIMES_SIGN} {first.name}", sum(counts[s] for s in FINISHED)
        note = "" if NO_STATUS in counts else f"{done}/{many}"
    description = ", ".join(filter(None, (word_of(status), note)))
    title = name[:MAX_TITLE_LENGTH] + (f": {description}" if description else "")
    inner = [element("title", escape_text(title)), *_cards(box)]
    if measures.compact:
        inner.append(icon(13, measures.box_height // 2, status))
        inner.append(text(25, 16, truncate(name, measures.box_width - 25 - 6, WORD_SIZE)))
    else:
        inner += _texts(measures, name, status, note, higher=3 if many > 1 else 0)
    inner += _bar(box, counts) if many > 1 else []
    where = address(lane.slug, first.key) if address else None
    drawn = element(
        "g",
        "".join(inner),
        id=element_id if where is None else None,
        class_="step",
        data_step=first.key,
        data_steps=many if many > 1 else None,
        data_status=status,
        transform=f"translate({box.x} {box.y})",
    )
    return drawn if where is None else element("a", drawn, id=element_id, href=where)


def _cards(box: Box) -> Iterator[str]:
    pile = _STACK_OFFSET if len(box.steps) > 1 else 0
    size = {"width": box.width - pile, "height": box.height - pile, "rx": 6}
    for shift in (pile, pile // 2) if pile else ():
        yield element("rect", x=shift, y=shift, **size, class_="under")
    yield element("rect", **size)


def _texts(
    measures: Dimensions, name: str, status: str, note: str, *, higher: int
) -> Iterator[str]:
    lines = wrap(name, measures.name_width, NAME_SIZE, measures.name_lines)
    base = 17 - higher + (measures.name_lines - len(lines)) * _LINE_HEIGHT // 2
    yield icon(15, measures.box_height // 2 - 1 - higher, status)
    for number, line in enumerate(lines):
        yield text(TEXT_LEFT, base + number * _LINE_HEIGHT, line)
    below = base + len(lines) * _LINE_HEIGHT + 1
    yield text(TEXT_LEFT, below, word_of(status), "word")
    yield text(measures.box_width - TEXT_RIGHT, below, note, "note", text_anchor="end")


def _bar(box: Box, counts: Counter[str]) -> Iterator[str]:
    left, past = 0, 0
    width, y = box.width - _STACK_OFFSET - 2 * TEXT_RIGHT, box.height - _STACK_OFFSET - 3
    for status in (status for status in LOOKS if status in counts):
        past += counts[status]
        right = width * past // len(box.steps)
        place = {"x": TEXT_RIGHT + left, "y": y, "width": right - left, "height": 2}
        yield element("rect", class_="part", data_status=status, **place)
        left = right


def legend(layout: Layout, marks: Annotations, top: int) -> tuple[str, int]:
    """Return the legend of a diagram with small boxes, and the legend's width.

    The legend shows how many steps have each status.
    """
    lanes = layout.sketch.lanes
    counts = Counter(marks.step(lane.slug, s.key).status for lane in lanes for s in lane.steps)
    left, parts = layout.measures.margin + 8, list[str]()
    for status in sorted(counts.keys() - {NO_STATUS}, key=[*LOOKS, *counts].index):
        label = f"{counts[status]:,} {word_of(status).lower()}"
        inner = icon(left, top + 8, status) + text(left + 13, top + 12, label, "word")
        parts.append(element("g", inner, data_status=status))
        left += round(text_width(label, WORD_SIZE)) + 40
    return element("g", "".join(parts), class_="legend"), left


MAX_LISTED: Final = 6
_NOTE_LINE_HEIGHT: Final = 18
LEFT: Final = 14
_MAX_LINE_WIDTH: Final = 700
#: Pixels by which the control points of a curve are below the boxes. With more, a curve could run
#: into the list of conditions, which is below the boxes.
_BULGE: Final = 16
#: Half the width of a loop's arrowhead, in pixels.
HEAD: Final = 4


def _branches_of(layout: Layout, marks: Annotations) -> list[Branch]:
    drawn = {(lane.slug, step.key) for lane in layout.sketch.lanes for step in lane.steps}
    return [branch for branch in marks.branches if (branch.stage, branch.source) in drawn]


def branch_lines(layout: Layout, marks: Annotations) -> Iterator[str]:
    """Yield a dashed line for each condition that skips to a step, and an arrow for each loop."""
    if not marks.branches:
        return
    boxes = {
        (layout.sketch.lanes[box.lane].slug, layout.sketch.lanes[box.lane].steps[step].key): box
        for box in layout.boxes
        for step in box.steps
    }
    for branch in _branches_of(layout, marks):
        source = boxes.get((branch.stage, branch.source))
        target = boxes.get((branch.stage, branch.target or ""))
        if source and target and branch.is_loop:
            yield element("path", class_="branch loop", d=_curve(source, target, is_loop=True))
        elif source and target and source != target:
            yield element("path", class_="branch", d=_curve(source, target))


def _curve(source: Box, target: Box, *, is_loop: bool = False) -> str:
    """Return a curve from the bottom of one box to the top or bottom of another.

    The curve of a loop ends at the bottom of the other box, with an arrowhead.
    """
    x, y = source.x + source.width * 3 // 4, source.y + source.height
    to_x = target.x + target.width // 4
    if target.y > y and not is_loop:
        middle = (target.y - y) // 2
        return f"M{x} {y}C{x} {y + middle} {to_x} {target.y - middle} {to_x} {target.y}"
    to_y = target.y + target.height
    low, wing = max(y, to_y) + _BULGE, to_y + 2 * HEAD
    head = f"M{to_x - HEAD} {wing}L{to_x} {to_y}L{to_x + HEAD} {wing}" if is_loop else ""
    return f"M{x} {y}C{x} {low} {to_x} {low} {to_x} {to_y}{head}"


def branch_list(layout: Layout, marks: Annotations, top: int) -> tuple[str, int, int]:
    branches = _branches_of(layout, marks)
    lines = [f"{BRANCH_MARK} {branch.text}" for branch in branches[:MAX_LISTED]]
    if len(branches) > MAX_LISTED:
        lines.append(f"and {len(branches) - MAX_LISTED} more conditions")
    shown = [truncate(line, _MAX_LINE_WIDTH, WORD_SIZE) for line in lines]
    width = max((round(text_width(line, WORD_SIZE)) for line in shown), default=-2 * LEFT)
    drawn = "".join(
        text(LEFT, top + _NOTE_LINE_HEIGHT * number + 12, line, "note")
        for number, line in enumerate(shown)
    )
    height = _NOTE_LINE_HEIGHT * len(shown) + 6 if shown else 0
    return drawn, width + 2 * LEFT, height
