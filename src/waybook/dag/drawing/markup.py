"""Text made safe for SVG, whatever it says, and the small parts drawings are made of."""

import re
from html import escape
from typing import Final

from waybook.record.oddities import replace_hidden

#: What XML has no place for, not even escaped.
FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
REPLACEMENT = "\ufffd"
#: What is not in here needs a closer look; most texts have nothing else in them.
PLAIN_TEXT: Final = re.compile(r"[\w .,:;/()+-]*")


def escape_text(text: str) -> str:
    r"""A text for between tags and within quotes.

    >>> escape_text('<a href="x"> \x01 & co')
    '&lt;a href=&quot;x&quot;&gt; � &amp; co'
    """
    if PLAIN_TEXT.fullmatch(text):
        return text
    return escape(FORBIDDEN.sub(REPLACEMENT, replace_hidden(text, REPLACEMENT)))


#: Words of our language cannot be names of arguments.
ATTRIBUTE_NAMES = {"class_": "class"}


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """An element; `None` is an attribute that is not there, and data_x becomes data-x.

    >>> element("rect", width=3, class_="box", data_step="a<b", rx=None)
    '<rect width="3" class="box" data-step="a&lt;b"/>'
    """
    told = "".join(
        f' {ATTRIBUTE_NAMES.get(key) or key.replace("_", "-")}="{_told(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{told}>{content}</{name}>" if content else f"<{name}{told}/>"


def _told(value: object) -> object:
    return escape_text(value) if isinstance(value, str) else value


def text(x: int, y: int, said: str, class_: str | None = None, **attributes: object) -> str:
    """A line of text that begins here; nothing is drawn for nothing."""
    return element("text", escape_text(said), x=x, y=y, class_=class_, **attributes) if said else ""
