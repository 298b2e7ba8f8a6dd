"""Vectors of any model at the width we keep: shorter ones filled up, longer ones folded.

Folding adds each number to one of the places we have, with a sign by chance that is always the
same (a count sketch). Distances stay as they were but for a few hundredths of themselves, so what
is near stays near, and it takes no longer than reading the numbers once.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from math import isfinite, sqrt

from waybook.research.embedding import DIMENSIONS, Vector, neutral_vector

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
