"""A map as Markdown: its stages as headings, its steps as lists, for whoever reads or pastes it."""

import re
from collections.abc import Iterator
from typing import Final

from waybook.dag.drawing.looks import symbol_for
from waybook.dag.drawing.marks import NO_ANNOTATIONS, Annotation, Annotations
from waybook.dag.drawing.sketch import Diagram, Lane

SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
HIDDEN_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+|[\ud800-\udfff]")
MAX_NAME_LENGTH = 500


def markdown_outline(sketch: Diagram, marks: Annotations = NO_ANNOTATIONS) -> str:
    """The map as a page of Markdown."""
    return "\n".join([f"# {escape_markdown(sketch.name)}", *_lanes(sketch, marks), ""])


def _lanes(sketch: Diagram, marks: Annotations) -> Iterator[str]:
    for lane in sketch.lanes:
        yield ""
        if len(sketch.lanes) > 1:
            told = f" {_told(marks.stage(lane.slug))}" if marks.stages else ""
            yield f"## {escape_markdown(lane.name or lane.slug)}{told}"
            yield ""
        yield from _steps(lane, marks)


def _steps(lane: Lane, marks: Annotations) -> Iterator[str]:
    number = {step.key: place for place, step in enumerate(lane.steps, start=1)}
    before: dict[str, list[int]] = {}
    for source, target in lane.edges:
        before.setdefault(target, []).append(number[source])
    for step in lane.steps:
        told = f" {_told(marks.step(lane.slug, step.key))}" if marks.steps else ""
        # After the one before it is what a list says by itself.
        waits = sorted(before.get(step.key, ()))
        after = f"; after {', '.join(map(str, waits))}" if waits != [number[step.key] - 1] else ""
        yield f"{number[step.key]}. {escape_markdown(step.name)}{told}{after if waits else ''}"


def _told(mark: Annotation) -> str:
    look = symbol_for(mark.status)
    return f"— {look.symbol} {look.label}" + (
        f", {escape_markdown(mark.note)}" if mark.note else ""
    )


def escape_markdown(text: str) -> str:
    r"""A text on one line, with nothing in it that Markdown would read as more than text.

    >>> escape_markdown("a *bold* <b>move</b>\n# here")
    'a \\*bold\\* \\<b\\>move\\</b\\> \\# here'
    """
    return SPECIAL.sub(r"\\\1", HIDDEN_CHARACTERS.sub(" ", text[:MAX_NAME_LENGTH]).strip())
