"""The part of a text that best shows why it was found, with the words that match."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from waybook.research.question import SearchQuery
from waybook.research.words import fold_text, split_words

MAX_SNIPPET_LENGTH = 280
#: Of a longer text only the beginning is looked at.
MAX_TEXT_LENGTH = 20_000

_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_ENDING = re.compile(r"(?:ations?|ingly|ings?|edly|ed|ers?|ies|es|s|ly|e|y)$")
_SHORTEST_ROOT = 3


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    #: Where in the text the matching words begin and end.
    marks: tuple[tuple[int, int], ...]
    #: Whether something of the text stands before or after.
    cut_before: bool
    cut_after: bool

    def highlight(self, before: str = "**", after: str = "**") -> str:
        """The text with its matching words marked, and an ellipsis where it was cut."""
        pieces, at = list[str](), 0
        for start, end in self.marks:
            pieces += [self.text[at:start], before, self.text[start:end], after]
            at = end
        told = "".join([*pieces, self.text[at:]])
        return ("…" if self.cut_before else "") + told + ("…" if self.cut_after else "")


@dataclass(frozen=True, slots=True)
class _Match:
    start: int
    end: int
    root: str


def build_snippet(text: str, question: SearchQuery, longest: int = MAX_SNIPPET_LENGTH) -> Snippet:
    """The window of at most so many characters that holds most of what the question says.

    >>> from waybook.research.question import parse_query
    >>> build_snippet("Rain fell. The dams broke.", parse_query("dam break"), 15).highlight()
    '…**dams** broke.'
    """
    text = text[:MAX_TEXT_LENGTH]
    weights = _weights(question)
    matches = [
        _Match(found.start(), found.end(), root)
        for found in _WORD.finditer(text)
        if (root := _root(fold_text(found[0]))) in weights
    ]
    start, end = _window(text, _best(matches, weights, longest), longest)
    inside = [match for match in matches if start <= match.start and match.end <= end]
    return Snippet(
        text=text[start:end],
        marks=tuple((match.start - start, match.end - start) for match in inside),
        cut_before=bool(text[:start].strip()),
        cut_after=bool(text[end:].strip()),
    )


def _weights(question: SearchQuery) -> dict[str, float]:
    """What each word of the question weighs, by its root."""
    found: dict[str, float] = {}
    for term in question.terms:
        for word in split_words(f"{term.text} {term.correction or ''}"):
            found[_root(word)] = max(term.weight, found.get(_root(word), 0))
    return found


def _root(word: str) -> str:
    """The word without its ending: enough to see that two are of one family."""
    bare = _ENDING.sub("", word)
    return bare if len(bare) >= _SHORTEST_ROOT else word


def _best(matches: Sequence[_Match], weights: dict[str, float], longest: int) -> tuple[int, int]:
    """Where the matches begin and end that weigh most together and fit; the first such ones."""
    best, place = (0.0, 0), (0, 0)
    first = 0
    for last, match in enumerate(matches):
        while match.end - matches[first].start > longest and first < last:
            first += 1
        inside = matches[first : last + 1]
        told = sum(weights[root] for root in {inner.root for inner in inside}), len(inside)
        if told > best and match.end - matches[first].start <= longest:
            best, place = told, (matches[first].start, match.end)
    return place


def _window(text: str, core: tuple[int, int], longest: int) -> tuple[int, int]:
    """The core with as much around it as fits, from the beginning of a word to the end of one."""
    start = max(0, core[0] - (longest - (core[1] - core[0])) // 3)
    if start:
        blank = _BLANK.search(text, start - 1, core[0])
        start = blank.end() if blank else core[0]
    end = min(len(text), start + longest)
    if end < len(text) and not text[end].isspace():
        last = max(text.rfind(" ", core[1], end), text.rfind("\n", core[1], end))
        end = last if last > start else end
    return start, end
