"""Makes texts of other people safe to show in Markdown reports."""

import re
from typing import Final

from waybook.core.hidden_characters import escape_hidden

#: The first pattern finds the beginning of an HTML tag, or of an escaped tag.
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])|&(?=(?:amp;)*lt;)")
_ESCAPED_TAG: Final = re.compile(r"&(?:amp;)*lt;")


def inert(text: str) -> str:
    r"""Return a text whose HTML tags a Markdown viewer shows, but does not execute.

    >>> inert("<script>\x07"), inert("1 < 2 &lt;")
    ('&lt;script>⟦U+0007⟧', '1 < 2 &amp;lt;')
    """
    return _TAG.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", escape_hidden(text))


def without_escapes(text: str) -> str:
    """Undo `inert`: return the text with its original HTML tags.

    >>> without_escapes(inert("<b>, &lt;b> and &amp;lt;"))
    '<b>, &lt;b> and &amp;lt;'
    """
    return _ESCAPED_TAG.sub(
        lambda match: "<" if match[0] == "&lt;" else match[0].replace("amp;", "", 1), text
    )
