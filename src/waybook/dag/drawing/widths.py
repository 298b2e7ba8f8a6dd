"""How wide a text is, near enough to know whether it fits: the letters' widths in a table."""

from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from unicodedata import combining, east_asian_width

#: What most sans-serif fonts come to, in thousandths of the font's size.
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
#: Fonts differ: what is measured is taken for wider than the table says, as it is in a wide font.
WIDTH_MARGIN = 1.15
ELLIPSIS = "…"
#: Longer texts are cut before they are measured.
MAX_MEASURED_LENGTH = 400


def text_width(text: str, size: int) -> float:
    """The width in pixels.

    >>> text_width("will", 10) < text_width("www", 10)
    True
    """
    return sum(map(_width, text)) * size * WIDTH_MARGIN / 1000


def _width(letter: str) -> int:
    known = WIDTHS.get(letter)
    if known is not None:
        return known
    if combining(letter):
        return NONE
    return WIDE_CHARACTER_WIDTH if east_asian_width(letter) in "WF" else UNKNOWN


def truncate(text: str, room: float, size: int) -> str:
    """The text, or as much of it as fits, with an ellipsis.

    >>> truncate("Prepare the header", 62, 12)
    'Prepare…'
    """
    text = text[:MAX_MEASURED_LENGTH]
    if text_width(text, size) <= room:
        return text
    left = room - text_width(ELLIPSIS, size)
    kept = sum(width <= left for width in accumulate(text_width(letter, size) for letter in text))
    return text[:kept].rstrip() + ELLIPSIS


def wrap(text: str, room: float, size: int, lines: int) -> list[str]:
    """The text in at most so many lines, broken between words; the last line is fitted.

    >>> wrap("Pairwise synthesis of the business case", 140, 12, 2)
    ['Pairwise synthesis of', 'the business case']
    """
    words = text[:MAX_MEASURED_LENGTH].split()
    found: list[str] = []
    while words and len(found) < lines - 1:
        line = words.pop(0)
        while words and text_width(f"{line} {words[0]}", size) <= room:
            line += f" {words.pop(0)}"
        found.append(truncate(line, room, size))
    return [*found, truncate(" ".join(words), room, size)] if words else found
