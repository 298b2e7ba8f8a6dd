"""Texts in pages: Markdown as sanitized HTML, and line diffs, bounded in time and size."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final

import orjson
from markupsafe import Markup

from waybook.dag.templates.filters import json_to_markdown
from waybook.dag.templates.rendering import markdown_to_html
from waybook.json_values import Json

#: A text with more characters or more lines is shown collapsed.
LONG, TALL = 700, 14
#: Maximum number of characters of a text that a page shows.
MAX_LENGTH = 40_000

_HEADING: Final = re.compile(r"<h[1-6]>(.*?)</h[1-6]>", re.DOTALL)

_HEADING_TAG: Final = re.compile(r"<(/?)h([1-6])>")


#: Makes tables scroll in a box of their own, also with the keyboard.
_TABLE_TAGS: Final = {
    "<table>": '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>',
    "</table>": "</table></div>",
}


def _to_html(markdown: str) -> str:
    html = markdown_to_html(markdown)
    # The text itself cannot contain these tags, because it is escaped.
    for tag, boxed in _TABLE_TAGS.items():
        html = html.replace(tag, boxed)
    return html


def document_html(markdown: str) -> Markup:
    """Return a document as sanitized HTML, with headings two levels lower."""
    html = _to_html(markdown)
    # The page uses heading levels 1 and 2 itself.
    lower = _HEADING_TAG.sub(lambda tag: f"<{tag[1]}h{min(6, int(tag[2]) + 2)}>", html)
    return Markup(lower)  # noqa: S704 - it has been sanitized


@dataclass(frozen=True, slots=True)
class RichText:
    html: Markup
    long: bool
    omitted: int = 0


def to_rich_text(value: Json) -> RichText | None:
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json_to_markdown(value, 4)
    excerpt = text[:MAX_LENGTH]
    # Headings in the text must not be part of the page's outline.
    html = _HEADING.sub(r'<p class="head"><strong>\1</strong></p>', _to_html(excerpt))
    long = len(text) > LONG or text.count("\n") > TALL
    return RichText(Markup(html), long, len(text) - len(excerpt))  # noqa: S704 - it has been sanitised


def markdown_gist(text: str) -> str:
    """Return Markdown as one line of plain text.

    >>> markdown_gist("**Which** of `a` and *b*?")
    'Which of a and b?'
    """
    return Markup(markdown_to_html(text)).striptags()  # noqa: S704 - only its text is used


MAX_DIFF_LENGTH: Final = 200_000
#: Maximum number of changed lines. Comparing more lines would take too long.
MAX_CHANGED_LINES: Final = 1_000
_CONTEXT_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The lines that differ between two texts."""

    #: Kind and text of each line. The kinds are `same`, `added`, `removed` and `omitted`; the text
    #: of `omitted` is the number of omitted lines.
    lines: Sequence[tuple[str, str]] = ()
    added: int = 0
    removed: int = 0
    note: str = ""


TOO_LONG: Final = Diff(note="The texts are too long to compare here.")


def result_text(result: Json) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    return orjson.dumps(result, option=orjson.OPT_INDENT_2).decode()


def compare_texts(old: str, new: str) -> Diff:
    r"""Return the changed lines between two texts, with a few unchanged lines around each.

    >>> compare_texts("a\nb", "a\nc").lines
    [('same', 'a'), ('removed', 'b'), ('added', 'c')]
    """
    if max(len(old), len(new)) > MAX_DIFF_LENGTH:
        return TOO_LONG
    before, after = old.splitlines(), new.splitlines()
    head = _common_length(before, after)
    tail = _common_length(before[head:][::-1], after[head:][::-1])
    if max(len(before), len(after)) - head - tail > MAX_CHANGED_LINES:
        return TOO_LONG
    # Skip the equal lines at the beginning and the end, except those next to a change.
    skipped, kept = max(0, head - _CONTEXT_LINES), max(0, tail - _CONTEXT_LINES)
    before, after = before[skipped : len(before) - kept], after[skipped : len(after) - kept]
    lines: list[tuple[str, str]] = []
    at = -skipped
    matcher = SequenceMatcher(None, before, after)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] > at:
            lines.append(("omitted", str(group[0][1] - at)))
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [("same", line) for line in before[start:end]]
                continue
            lines += [("removed", line) for line in before[start:end]]
            lines += [("added", line) for line in after[new_start:new_end]]
        at = group[-1][2]
    if lines and len(before) + kept > at:
        lines.append(("omitted", str(len(before) + kept - at)))
    kinds = [kind for kind, _ in lines]
    return Diff(lines=lines, added=kinds.count("added"), removed=kinds.count("removed"))


def _common_length(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = zip(before, after, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
