"""Extracts from a search hit the sentence that contains the most search words."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from waybook.research.passages import passages
from waybook.research.query import STOP_WORDS, word_root
from waybook.research.vocabulary import fold_text

_MAX_EXCERPT_LENGTH = 240
_MIN_EXCERPT_LENGTH = 80
MAX_WORDS = 60

_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_BLANK = re.compile(r"\s+")


class Piece(NamedTuple):
    text: str
    is_match: bool = False


@dataclass(frozen=True, slots=True)
class SearchWords:
    words: tuple[str, ...]
    #: The significant words of the search. The keys are their roots.
    roots: Mapping[str, str]

    def match(self, word: str) -> str | None:
        """Return the search word that matches this word of a text, or None.

        >>> parse_words("glacial lake").match("Lakes"), parse_words("gla").match("Glacier")
        ('lake', 'gla')
        """
        folded = fold_text(word)
        same = self.roots.get(word_root(folded))
        if same is not None:
            return same
        return next((wanted for wanted in self.roots.values() if folded.startswith(wanted)), None)


def parse_words(text: str) -> SearchWords:
    words = tuple(_WORD.findall(fold_text(text))[:MAX_WORDS])
    significant = [word for word in words if word not in STOP_WORDS] or words
    return SearchWords(words, {word_root(word): word for word in significant})


def mark_words(text: str, wanted: SearchWords) -> tuple[Piece, ...]:
    """Split a text into pieces. Each word that matches the search becomes a marked piece.

    >>> [tuple(piece) for piece in mark_words("Two dams broke.", parse_words("dam"))]
    [('Two ', False), ('dams', True), (' broke.', False)]
    """
    return tuple(_pieces(text, wanted))


def _pieces(text: str, wanted: SearchWords) -> Iterator[Piece]:
    at = 0
    for word in _WORD.finditer(text):
        if wanted.match(word[0]) is not None:
            if word.start() > at:
                yield Piece(text[at : word.start()])
            yield Piece(word[0], is_match=True)
            at = word.end()
    if at < len(text):
        yield Piece(text[at:])


def matching_sentence(
    text: str, wanted: SearchWords, longest: int = _MAX_EXCERPT_LENGTH
) -> tuple[Piece, ...]:
    """Return the sentence with the most search words, split into pieces as by `mark_words`.

    >>> "".join(piece.text for piece in matching_sentence("Rain. Dams broke.", parse_words("dam")))
    'Dams broke.'
    """
    passage = _best(passages(text), wanted.roots)
    sentences = [sentence for sentence in _SENTENCE_END.split(passage) if sentence]
    if not sentences:
        return ()
    counts = [
        len({wanted.match(word) for word in _WORD.findall(sentence)} - {None})
        for sentence in sentences
    ]
    place = counts.index(max(counts))
    excerpt = sentences[place]
    for following in sentences[place + 1 :]:
        if len(excerpt) >= _MIN_EXCERPT_LENGTH or len(excerpt) + len(following) >= longest:
            break
        excerpt = f"{excerpt} {following}"
    return mark_words(_cut(excerpt, wanted, longest), wanted)


def _best(texts: Sequence[str], roots: Iterable[str]) -> str:
    wanted = [*roots]

    def count(text: str) -> int:
        folded = fold_text(text)
        return sum(root in folded for root in wanted)

    return max(texts, key=count, default="")


def _cut(sentence: str, wanted: SearchWords, longest: int) -> str:
    if len(sentence) <= longest:
        return sentence
    matches = (word.start() for word in _WORD.finditer(sentence) if wanted.match(word[0]))
    first = next(matches, 0)
    start = max(0, min(first - longest // 3, len(sentence) - longest))
    if start:
        blank = _BLANK.search(sentence, start, first)
        start = blank.end() if blank else start
    end = start + longest
    shown = sentence[start:end]
    if end < len(sentence):
        shown = (shown.rsplit(" ", 1)[0] if " " in shown else shown) + "…"
    return ("…" if start else "") + shown
