"""Texts as vectors: near in meaning, near in space.

A text's vector is the sum of the rows its words have in a table, a frequent word weighing less;
no model runs. Sums are made of whole rows at a time: a row is one long integer in whose lanes its
numbers lie side by side, so that adding it up takes a dozen operations however many numbers it
has.

Vectors of any model at the width we keep: shorter ones filled up, longer ones folded.

Folding adds each number to one of the places we have, with a sign by chance that is always the
same (a count sketch). Distances stay as they were but for a few hundredths of themselves, so what
is near stays near, and it takes no longer than reading the numbers once.

Whoever makes vectors for search: the table that comes with us, or somebody elsewhere.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from math import isfinite, log, sqrt
from struct import Struct
from typing import Protocol, TypeAlias

from waybook.research.vocabulary import (
    BYTE_OFFSET,
    MAX_WORD_LENGTH,
    WordVectors,
    builtin_word_vectors,
    split_words,
)

#: Of unit length, so that the nearest are those with the greatest product.
Vector: TypeAlias = tuple[float, ...]

DIMENSIONS = 256
#: Of a longer text only the beginning is looked at. Whoever indexes cuts texts into passages.
MAX_TEXT_LENGTH = 100_000
REMEMBERED_WORDS = 50_000
REMEMBERED_ROWS = 8_000

#: A word that occurs n times counts 1 + log n times, in steps of a sixteenth.
STEPS = 16
#: Two bytes hold the sum of so many single ones.
ROWS_AT_ONCE = 256


class Embedder(Protocol):
    """Whoever makes vectors of texts. Vectors of one model are never compared with another's."""

    @property
    def model(self) -> str:
        """The name its vectors are kept under."""

    def embed(self, text: str) -> Vector:
        """The text as a vector of unit length."""


class StaticEmbedder:
    """Looks words up in a table; the same text gives the same vector, always and everywhere."""

    model = "static-1"

    def __init__(self, table: WordVectors) -> None:
        self._table = table
        self._spelled = lru_cache(REMEMBERED_WORDS)(table.rows_for_word)
        self._numbers = lru_cache(REMEMBERED_ROWS)(self._read)
        self._lanes = Struct(f"<{table.dimensions // 4}I")
        self._one_of_two = int.from_bytes(b"\xff\0" * (table.dimensions // 2), "little")
        self._one_of_four = int.from_bytes(b"\xff\xff\0\0" * (table.dimensions // 4), "little")

    def embed(self, text: str) -> Vector:
        """The text as a vector of unit length; one without a word lies nowhere in particular."""
        counts = Counter[int]()
        for word, count in Counter(split_words(text[:MAX_TEXT_LENGTH])).items():
            if len(word) <= MAX_WORD_LENGTH:
                for number in self._spelled(word):
                    counts[number] += count
        return self._unit(self._sum(counts), sum(map(term_weight, counts.values())))

    def _read(self, number: int) -> int:
        return int.from_bytes(self._table.row(number), "little")

    def _sum(self, counts: Counter[int]) -> list[int]:
        """The weighted sum of these rows, number by number, still shifted.

        First rows of one weight are added, with two bytes for each number; then their sums are
        weighed and added, with four. Fifty thousand words of the greatest weight, which is 200,
        still fit.
        """
        by_weight = defaultdict[int, list[int]](list)
        for number, count in counts.items():
            by_weight[term_weight(count)].append(number)
        mask, sums = self._one_of_four, [0, 0, 0, 0]
        for factor, numbers in by_weight.items():
            for start in range(0, len(numbers), ROWS_AT_ONCE):
                even, odd = self._added(numbers[start : start + ROWS_AT_ONCE])
                for place, lanes in enumerate((even, odd, even >> 16, odd >> 16)):
                    sums[place] += (lanes & mask) * factor
        fours = [self._lanes.unpack(lane.to_bytes(self._lanes.size, "little")) for lane in sums]
        return [number for four in zip(*fours, strict=True) for number in four]

    def _added(self, numbers: list[int]) -> tuple[int, int]:
        """The sums of the numbers in even places and in odd ones, two bytes each."""
        mask, even, odd = self._one_of_two, 0, 0
        for row in map(self._numbers, numbers):
            even += row & mask
            odd += row >> 8 & mask
        return even, odd

    def _unit(self, sums: Iterable[int], weights: int) -> Vector:
        shift = weights * BYTE_OFFSET
        found = [(n - shift) * scale for n, scale in zip(sums, self._table.scale, strict=True)]
        length = sqrt(sum([n * n for n in found]))
        return (
            tuple([n / length for n in found]) if length else neutral_vector(self._table.dimensions)
        )


@cache
def term_weight(count: int) -> int:
    """How much a word counts that occurs so many times."""
    return round(STEPS * (1 + log(count)))


def neutral_vector(dimensions: int) -> Vector:
    """The vector of a text that says nothing."""
    return (1 / sqrt(dimensions),) * dimensions


@cache
def builtin_embedder() -> StaticEmbedder:
    """The one that comes with the package, and needs nothing else."""
    return StaticEmbedder(builtin_word_vectors())


def embed(text: str) -> Vector:
    """The text as a vector of unit length.

    >>> river, texts = embed("a cold river"), ("icy stream", "tax law")
    >>> near, far = (cosine_similarity(river, embed(text)) for text in texts)
    >>> near > 0.3 > far
    True
    """
    return builtin_embedder().embed(text)


def cosine_similarity(one: Vector, other: Vector) -> float:
    """The cosine of the angle between two vectors: 1 for the same direction."""
    return sum([a * b for a, b in zip(one, other, strict=True)])


#: No model makes longer ones.
MAX_DIMENSIONS = 16_384


def resize_vector(numbers: Sequence[float], dimensions: int = DIMENSIONS) -> Vector:
    """A vector of unit length and of the width we keep.

    >>> resize_vector([3.0, 4.0], 4)
    (0.6, 0.8, 0.0, 0.0)

    Raises:
        ValueError: these are no numbers one could compare.
    """
    if not 0 < len(numbers) <= MAX_DIMENSIONS or not all(map(isfinite, numbers)):
        raise ValueError("not a vector")
    folded = [0.0] * dimensions
    if len(numbers) <= dimensions:
        folded[: len(numbers)] = map(float, numbers)
    else:
        for place, (number, sign) in enumerate(zip(numbers, _signs(len(numbers)), strict=True)):
            folded[place % dimensions] += number * sign
    length = sqrt(sum([n * n for n in folded]))
    return tuple([n / length for n in folded]) if length else neutral_vector(dimensions)


@lru_cache(16)
def _signs(count: int) -> tuple[int, ...]:
    """As many signs, by chance, but always the same."""
    bits = b"".join(sha256(f"fold {n}".encode()).digest() for n in range(count // 256 + 1))
    chance = int.from_bytes(bits, "little")
    return tuple(1 if chance >> place & 1 else -1 for place in range(count))


class EmbeddingModel(Protocol):
    """Makes vectors of many texts. Vectors of one model are never compared with another's."""

    @property
    def name(self) -> str:
        """The name its vectors are kept under."""

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each text.

        Raises:
            EndpointFailed: they cannot be had right now.
        """

    async def warm(self) -> None:
        """Get ready, so that the first who asks need not wait."""
