"""Computes embeddings of texts, and converts embeddings of other models to the stored size.

The built-in model looks up each word of a text in a table of word vectors, and adds up the vectors.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from enum import StrEnum
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

#: A vector of length 1. The dot product of two such vectors is their cosine similarity.
Vector: TypeAlias = tuple[float, ...]


class EmbeddingModel(Protocol):
    """Model that embeds many texts at once. Vectors of different models are never compared."""

    @property
    def name(self) -> str:
        """Name under which vectors of this model are stored."""

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return an embedding for each text.

        Raises:
            EndpointFailed: the embedding endpoint did not return the vectors.
        """

    async def warm(self) -> None:
        """Load the embedding model, so that the first request does not wait for it."""


class Backend(StrEnum):
    #: Vectors are stored in an ordinary table and ranked in this process.
    PORTABLE = "portable"
    #: Vectors are stored and ranked by the pgvector extension.
    PGVECTOR = "pgvector"


DIMENSIONS = 256
#: A vector is stored as integers: each of its numbers is multiplied by this factor.
SCALE = 32_767
MAX_TEXT_LENGTH = 100_000
_REMEMBERED_WORDS = 50_000
_REMEMBERED_ROWS = 8_000

#: A word that occurs n times in a text has the weight 1 + log n, rounded to a multiple of 1/16.
STEPS = 16
_ROWS_AT_ONCE = 256


class StaticEmbedder:
    """Embedding model with a table of word vectors. Its results are the same on every machine."""

    model = "static-1"

    def __init__(self, table: WordVectors) -> None:
        self._table = table
        self._spelled = lru_cache(_REMEMBERED_WORDS)(table.rows_for_word)
        self._numbers = lru_cache(_REMEMBERED_ROWS)(
            lambda number: int.from_bytes(table.row(number), "little")
        )
        self._lanes = Struct(f"<{table.dimensions // 4}I")
        self._one_of_two = int.from_bytes(b"\xff\0" * (table.dimensions // 2), "little")
        self._one_of_four = int.from_bytes(b"\xff\xff\0\0" * (table.dimensions // 4), "little")

    def embed(self, text: str) -> Vector:
        counts = Counter[int]()
        for word, count in Counter(split_words(text[:MAX_TEXT_LENGTH])).items():
            if len(word) <= MAX_WORD_LENGTH:
                for number in self._spelled(word):
                    counts[number] += count
        return self._unit(self._sum(counts), sum(map(term_weight, counts.values())))

    def _sum(self, counts: Counter[int]) -> list[int]:
        """Return the sum of the table rows in `counts`, weighted by how often each occurs."""
        by_weight = defaultdict[int, list[int]](list)
        for number, count in counts.items():
            by_weight[term_weight(count)].append(number)
        mask, sums = self._one_of_four, [0, 0, 0, 0]
        for factor, numbers in by_weight.items():
            for start in range(0, len(numbers), _ROWS_AT_ONCE):
                even, odd = self._added(numbers[start : start + _ROWS_AT_ONCE])
                for place, lanes in enumerate((even, odd, even >> 16, odd >> 16)):
                    sums[place] += (lanes & mask) * factor
        fours = [self._lanes.unpack(lane.to_bytes(self._lanes.size, "little")) for lane in sums]
        return [number for four in zip(*fours, strict=True) for number in four]

    def _added(self, numbers: list[int]) -> tuple[int, int]:
        """Add up rows of the table. Return the sums of the even and of the odd components."""
        mask, even, odd = self._one_of_two, 0, 0
        for row in map(self._numbers, numbers):
            even += row & mask
            odd += row >> 8 & mask
        return even, odd

    def _unit(self, sums: Iterable[int], weights: int) -> Vector:
        shift = weights * BYTE_OFFSET
        components = [(n - shift) * scale for n, scale in zip(sums, self._table.scale, strict=True)]
        length = sqrt(sum([n * n for n in components]))
        return (
            tuple([n / length for n in components])
            if length
            else neutral_vector(self._table.dimensions)
        )


@cache
def term_weight(count: int) -> int:
    return round(STEPS * (1 + log(count)))


def neutral_vector(dimensions: int) -> Vector:
    return (1 / sqrt(dimensions),) * dimensions


@cache
def builtin_embedder() -> StaticEmbedder:
    return StaticEmbedder(builtin_word_vectors())


def embed(text: str) -> Vector:
    """Return the embedding of a text.

    >>> river, texts = embed("a cold river"), ("icy stream", "tax law")
    >>> near, far = (cosine_similarity(river, embed(text)) for text in texts)
    >>> near > 0.3 > far
    True
    """
    return builtin_embedder().embed(text)


def cosine_similarity(vector: Vector, other: Vector) -> float:
    return sum([a * b for a, b in zip(vector, other, strict=True)])


#: Maximum number of dimensions. No known model produces vectors with more.
MAX_DIMENSIONS = 16_384


def resize_vector(numbers: Sequence[float], dimensions: int = DIMENSIONS) -> Vector:
    """Resize a vector to the stored number of dimensions and to unit length.

    >>> resize_vector([3.0, 4.0], 4)
    (0.6, 0.8, 0.0, 0.0)

    Raises:
        ValueError: there are no numbers, too many numbers, or numbers that are not finite.
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
    bits = b"".join(sha256(f"fold {n}".encode()).digest() for n in range(count // 256 + 1))
    chance = int.from_bytes(bits, "little")
    return tuple(1 if chance >> place & 1 else -1 for place in range(count))
