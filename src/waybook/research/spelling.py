"""What somebody may have meant who wrote a word that no table knows."""

from collections.abc import Iterator

from waybook.research.table import WordVectors

MIN_WORD_LENGTH = 4
MAX_WORD_LENGTH = 24
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def correct_word(word: str, table: WordVectors) -> str | None:
    """The likeliest known word that is one slip away; None if this one is known, or none is.

    A slip is a letter too many, one too few, a wrong one, or two that changed places. The first
    letter is seldom wrong; otherwise the most frequent word is the likeliest.

    >>> from waybook.research.table import builtin_word_vectors
    >>> [correct_word(word, builtin_word_vectors()) for word in ("vacine", "vaccine", "collapes")]
    ['vaccine', None, 'collapse']
    """
    if not MIN_WORD_LENGTH <= len(word) <= MAX_WORD_LENGTH or not (
        word.isascii() and word.isalpha()
    ):
        return None
    if word in table.numbers or table.stem(word):
        return None
    found = {near for near in _one_slip_away(word) if near in table.numbers}
    return min(found, key=lambda near: (near[0] != word[0], table.numbers[near]), default=None)


def _one_slip_away(word: str) -> Iterator[str]:
    for place in range(len(word) + 1):
        before, after = word[:place], word[place:]
        if after and len(word) > MIN_WORD_LENGTH:
            yield before + after[1:]
        if len(after) > 1:
            yield before + after[1] + after[0] + after[2:]
        for letter in LETTERS:
            yield before + letter + after
            if after:
                yield before + letter + after[1:]
