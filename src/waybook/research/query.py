"""Parses search queries into weighted terms, corrects their spelling, and builds snippets."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import TypeAlias

from waybook.research.vocabulary import WordVectors, builtin_word_vectors, fold_text, split_words

_MIN_WORD_LENGTH = 4
MAX_WORD_LENGTH = 24
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def correct_word(word: str, table: WordVectors) -> str | None:
    """Return the most likely correction of a misspelled word, or None.

    A correction is a known word that differs by one letter, or by two letters that are swapped.

    >>> from waybook.research.vocabulary import builtin_word_vectors
    >>> [correct_word(word, builtin_word_vectors()) for word in ("vacine", "vaccine", "collapes")]
    ['vaccine', None, 'collapse']
    """
    if not _MIN_WORD_LENGTH <= len(word) <= MAX_WORD_LENGTH or not (
        word.isascii() and word.isalpha()
    ):
        return None
    if word in table.numbers or table.stem(word):
        return None
    candidates = {near for near in _one_slip_away(word) if near in table.numbers}
    return min(candidates, key=lambda near: (near[0] != word[0], table.numbers[near]), default=None)


def _one_slip_away(word: str) -> Iterator[str]:
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        if after and len(word) > _MIN_WORD_LENGTH:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for character in LETTERS:
            yield before + character + after
            if after:
                yield before + character + after[1:]


MAX_QUERY_LENGTH = 1_000
MAX_TERMS = 12

#: English stop words, which PostgreSQL does not index.
_STOP_WORDS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her
hers herself it its itself they them their theirs themselves what which who whom this that these
those am is are was were be been being have has had having do does did doing a an the and but if or
because as until while of at by for with about against between into through during before after
above below to from up down in out on off over under again further then once here there when where
why how all any both each few more most other some such no nor not only own same so than too very s
t can will just don should now
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
#: Hyphen between two words. Hyphens of identifiers such as CVE-2024-3094 do not match.
_HYPHEN = re.compile(r"(?<=[^\W\d_]{2})-(?=[^\W\d_]{2})")
_AROUND = ".,;:!?()[]{}<>\"'`*-&|\\\u2013\u2014\u2026\u201c\u201d\u2018\u2019\xab\xbb"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    text: str
    correction: str | None
    #: Weight of the term. The weights of a query add up to 1; rare words have more.
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    text: str
    terms: tuple[Term, ...]

    @property
    def embedding_text(self) -> str:
        return " ".join([self.text, *(term.correction for term in self.terms if term.correction)])

    def split_terms(self, most: float) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Return the heavy and the light terms. All light terms together weigh less than `most`."""
        ordered, left_out = sorted(self.terms, key=lambda term: term.weight), 0.0
        for place, term in enumerate(ordered):
            left_out += term.weight
            if left_out >= most:
                return tuple(ordered[place:]), tuple(ordered[:place])
        return tuple(ordered), ()


def parse_query(text: str, table: WordVectors | None = None) -> SearchQuery:
    """Parse a search query into weighted terms.

    >>> question = parse_query("how do vacines work?")
    >>> [(term.text, term.correction) for term in question.terms]
    [('vacines', 'vaccines'), ('work', None)]
    """
    table = table or builtin_word_vectors()
    text = " ".join(text[:MAX_QUERY_LENGTH].split())
    weighted: dict[str, tuple[str | None, float]] = {}
    for chunk in _HYPHEN.sub(" ", text).split(" "):
        term = chunk.strip(_AROUND).replace('"', " ").replace("\\", " ")
        inner = split_words(term)
        if inner and term.lower() not in STOP_WORDS and term not in weighted:
            instead = correct_word(inner[0], table) if len(inner) == 1 else None
            weighted[term] = instead, max(_information(instead or word, table) for word in inner)
    heaviest = sorted(weighted, key=lambda term: -weighted[term][1])[:MAX_TERMS]
    total = sum(weighted[term][1] for term in heaviest)
    terms = (
        Term(text=term, correction=weighted[term][0], weight=weighted[term][1] / total)
        for term in weighted
        if term in heaviest
    )
    return SearchQuery(text=text, terms=tuple(terms))


def _information(word: str, table: WordVectors) -> float:
    """Return the importance of a word for a search. A rare word is more important."""
    number = table.numbers.get(word)
    if number is None:
        stem = table.stem(word)
        number = table.numbers[stem] if stem else 2 * len(table.numbers)
    return log(number + 2) ** 2


_MAX_SNIPPET_LENGTH = 280
#: Number of characters, from the beginning of a text, in which matching words are searched.
MAX_TEXT_LENGTH = 20_000

_WORD = re.compile(r"[^\W_]+")
_BLANK = re.compile(r"\s+")
_ENDING = re.compile(r"(?:ations?|ingly|ings?|edly|ed|ers?|ies|es|s|ly|e|y)$")
_MIN_ROOT_LENGTH = 3


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    marks: tuple[tuple[int, int], ...]
    cut_before: bool
    cut_after: bool

    def highlight(self, before: str = "**", after: str = "**") -> str:
        pieces, at = list[str](), 0
        for start, end in self.marks:
            pieces += [self.text[at:start], before, self.text[start:end], after]
            at = end
        marked_text = "".join([*pieces, self.text[at:]])
        return ("…" if self.cut_before else "") + marked_text + ("…" if self.cut_after else "")


#: Start, end and root of a matching word.
_Match: TypeAlias = tuple[int, int, str]


def build_snippet(text: str, question: SearchQuery, longest: int = _MAX_SNIPPET_LENGTH) -> Snippet:
    """Return an excerpt of at most `longest` characters with the most important matching words.

    >>> from waybook.research.query import parse_query
    >>> build_snippet("Rain fell. The dams broke.", parse_query("dam break"), 15).highlight()
    '…**dams** broke.'
    """
    text = text[:MAX_TEXT_LENGTH]
    weights: dict[str, float] = {}
    for term in question.terms:
        for word in split_words(f"{term.text} {term.correction or ''}"):
            weights[word_root(word)] = max(term.weight, weights.get(word_root(word), 0))
    matches = [
        (word_match.start(), word_match.end(), root)
        for word_match in _WORD.finditer(text)
        if (root := word_root(fold_text(word_match[0]))) in weights
    ]
    start, end = _window(text, _best(matches, weights, longest), longest)
    return Snippet(
        text=text[start:end],
        marks=tuple((a - start, b - start) for a, b, _ in matches if start <= a and b <= end),
        cut_before=bool(text[:start].strip()),
        cut_after=bool(text[end:].strip()),
    )


def word_root(word: str) -> str:
    bare = _ENDING.sub("", word)
    return bare if len(bare) >= _MIN_ROOT_LENGTH else word


def _best(matches: Sequence[_Match], weights: dict[str, float], longest: int) -> tuple[int, int]:
    best, place = (0.0, 0), (0, 0)
    first = 0
    for last, (_, end, _) in enumerate(matches):
        while end - matches[first][0] > longest and first < last:
            first += 1
        roots = [root for _, _, root in matches[first : last + 1]]
        score = sum(weights[root] for root in set(roots)), len(roots)
        if score > best and end - matches[first][0] <= longest:
            best, place = score, (matches[first][0], end)
    return place


def _window(text: str, core: tuple[int, int], longest: int) -> tuple[int, int]:
    start = max(0, core[0] - (longest - (core[1] - core[0])) // 3)
    if start:
        blank = _BLANK.search(text, start - 1, core[0])
        start = blank.end() if blank else core[0]
    end = min(len(text), start + longest)
    if end < len(text) and not text[end].isspace():
        last = max(text.rfind(" ", core[1], end), text.rfind("\n", core[1], end))
        end = last if last > start else end
    return start, end
