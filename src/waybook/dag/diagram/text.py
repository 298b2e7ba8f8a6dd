"""Exports a diagram as text: a Mermaid flowchart, or an outline in Markdown."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from waybook.core.shown import Shown, look_of
from waybook.dag.diagram.model import Diagram
from waybook.dag.diagram.status_marks import NO_ANNOTATIONS, Annotation, Annotations

MAX_NAME_LENGTH = 200
#: Characters that have a meaning in Mermaid, so they must be escaped.
_MERMAID_SPECIAL: Final = re.compile(r"""["#$%&'*;<=>?@\[\\\]^`{|}~!]""")
_HIDDEN_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+|[\ud800-\udfff]")

STYLES = {
    Shown.DONE: "fill:#e8f6ee,stroke:#17794a,color:#1b2130",
    Shown.SKIPPED: "fill:#f0f4f4,stroke:#4f7477,color:#1b2130",
    Shown.FAILED: "fill:#fdeaea,stroke:#bb2521,color:#1b2130,stroke-width:2px",
    Shown.NEEDS_YOU: "fill:#f3eafd,stroke:#7a2fc4,color:#1b2130,stroke-width:2px",
    Shown.STALLED: "fill:#fdf3dc,stroke:#946000,color:#1b2130,stroke-width:2px",
    Shown.RUNNING: "fill:#e6effd,stroke:#1f5fcc,color:#1b2130,stroke-width:2px",
}


def mermaid(sketch: Diagram, marks: Annotations = NO_ANNOTATIONS) -> str:
    return "\n".join(["flowchart LR", *_mermaid_lines(sketch, marks), ""])


def _mermaid_lines(sketch: Diagram, marks: Annotations) -> Iterator[str]:
    used: dict[str, list[str]] = {}
    framed = len(sketch.lanes) > 1
    for number, lane in enumerate(sketch.lanes):
        if framed:
            yield f'  subgraph s{number}["{quote(lane.name or lane.slug)}"]'
            yield "    direction LR"
        names = {step.key: f"n{number}_{place}" for place, step in enumerate(lane.steps)}
        for step in lane.steps:
            mark = marks.step(lane.slug, step.key)
            suffix = f"<br/>{quote(_mark_text(mark))}" if marks.steps else ""
            used.setdefault(mark.status, []).append(names[step.key])
            yield f'    {names[step.key]}["{quote(step.name)}{suffix}"]'
        for source, target in lane.edges:
            yield f"    {names[source]} --> {names[target]}"
        if framed:
            yield "  end"
    places = {lane.slug: number for number, lane in enumerate(sketch.lanes)}
    for source, target in sketch.transitions if framed else ():
        yield f"  s{places[source]} ==> s{places[target]}"
    for status, style in STYLES.items():
        if status in used:
            yield f"  classDef {status} {style}"
            yield f"  class {','.join(used[status])} {status}"


def _mark_text(mark: Annotation, escape: Callable[[str], str] = str) -> str:
    look = look_of(mark.status)
    return f"{look.symbol} {look.word}" + (f", {escape(mark.note)}" if mark.note else "")


def quote(text: str) -> str:
    """Return a text escaped for use between quotes in Mermaid.

    >>> quote('say "hi" & <go>')
    'say #34;hi#34; #38; #60;go#62;'
    """
    plain = _HIDDEN_CHARACTERS.sub(" ", text[:MAX_NAME_LENGTH])
    return _MERMAID_SPECIAL.sub(lambda match: f"#{ord(match[0])};", plain)


_MARKDOWN_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_MAX_OUTLINE_NAME_LENGTH = 500


def markdown_outline(sketch: Diagram, marks: Annotations = NO_ANNOTATIONS) -> str:
    return "\n".join([f"# {escape_markdown(sketch.name)}", *_outline(sketch, marks), ""])


def _outline(sketch: Diagram, marks: Annotations) -> Iterator[str]:
    for lane in sketch.lanes:
        yield ""
        if len(sketch.lanes) > 1:
            suffix = _suffix(marks.stage(lane.slug)) if marks.stages else ""
            yield f"## {escape_markdown(lane.name or lane.slug)}{suffix}"
            yield ""
        number = {step.key: place for place, step in enumerate(lane.steps, start=1)}
        before: dict[str, list[int]] = {}
        for source, target in lane.edges:
            before.setdefault(target, []).append(number[source])
        for place, step in enumerate(lane.steps, start=1):
            suffix = _suffix(marks.step(lane.slug, step.key)) if marks.steps else ""
            # A dependency on the previous step is clear from the order, so it is not listed.
            waits = sorted(before.get(step.key, ()))
            is_listed = waits and waits != [place - 1]
            after = f"; after {', '.join(map(str, waits))}" if is_listed else ""
            yield f"{place}. {escape_markdown(step.name)}{suffix}{after}"


def _suffix(mark: Annotation) -> str:
    return f" — {_mark_text(mark, escape_markdown)}"


def escape_markdown(text: str) -> str:
    r"""Return a text as one line, with all Markdown syntax escaped.

    >>> escape_markdown("a *bold* <b>move</b>\n# here")
    'a \\*bold\\* \\<b\\>move\\</b\\> \\# here'
    """
    return _MARKDOWN_SPECIAL.sub(
        r"\\\1", _HIDDEN_CHARACTERS.sub(" ", text[:_MAX_OUTLINE_NAME_LENGTH]).strip()
    )
