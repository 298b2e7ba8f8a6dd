"""Texts of agents as people read them: laid out, harmless, and cut where they get too long."""

import re
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from waybook.dag.readable import json_to_markdown
from waybook.dag.rendering import markdown_to_html
from waybook.record.moment import Json

#: What is longer than this, or has more lines, is folded.
LONG, TALL = 700, 14
#: What is longer than this is cut: the rest is on the plan's page.
MAX_LENGTH = 40_000

_HEADING: Final = re.compile(r"<h[1-6]>(.*?)</h[1-6]>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class RichText:
    """A text to be shown."""

    html: Markup
    #: Whether it is better folded.
    long: bool
    #: How many characters are left out.
    omitted: int = 0


def to_rich_text(value: Json) -> RichText | None:
    """A value as people read it: Markdown laid out, JSON as lists and tables; None for nothing."""
    if value is None or value == "":
        return None
    text = value if isinstance(value, str) else json_to_markdown(value, 4)
    kept = text[:MAX_LENGTH]
    # Headings of the text are none of the page's own.
    html = _HEADING.sub(r'<p class="head"><strong>\1</strong></p>', markdown_to_html(kept))
    long = len(text) > LONG or text.count("\n") > TALL
    return RichText(Markup(html), long, len(text) - len(kept))  # noqa: S704 - it has been sanitised
