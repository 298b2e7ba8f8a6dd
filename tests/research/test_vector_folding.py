"""Folding of embeddings: vectors of any width become vectors of the stored width."""

from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.embedding import DIMENSIONS, MAX_DIMENSIONS, cosine_similarity, resize_vector

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=3 * DIMENSIONS))
def test_vector_of_any_width_becomes_unit_vector_of_fixed_width(vector: list[float]) -> None:
    resized = resize_vector(vector)
    assert len(resized) == DIMENSIONS
    assert sqrt(sum(n * n for n in resized)) == pytest.approx(1)
    assert resize_vector(vector) == resized


def by_chance(width: int, seed: int) -> list[float]:
    chance = Random(seed)  # noqa: S311 - nothing is hidden by it
    return [chance.gauss(0, 1) for _ in range(width)]


def angle(vector: list[float], other: list[float]) -> float:
    lengths = sqrt(sum(n * n for n in vector)) * sqrt(sum(n * n for n in other))
    return sum(a * b for a, b in zip(vector, other, strict=True)) / lengths


@pytest.mark.parametrize("width", [1, 64, DIMENSIONS])
def test_resizing_a_narrow_vector_preserves_angles(width: int) -> None:
    vector, other = by_chance(width, 1), by_chance(width, 2)
    assert cosine_similarity(resize_vector(vector), resize_vector(other)) == pytest.approx(
        angle(vector, other)
    )


@pytest.mark.parametrize("width", [384, 768, 1024, 1536, 3072])
def test_resizing_a_wider_vector_approximately_preserves_angles(width: int) -> None:
    base = by_chance(width, 0)
    for seed in range(1, 30):
        share = seed / 30
        other = [
            share * a + (1 - share) * b for a, b in zip(base, by_chance(width, seed), strict=True)
        ]
        assert cosine_similarity(resize_vector(base), resize_vector(other)) == pytest.approx(
            angle(base, other), abs=0.2
        )


@pytest.mark.parametrize(
    "bad", [[], [float("nan")], [float("inf")] * 3, [1.0] * (MAX_DIMENSIONS + 1)]
)
def test_resizing_an_invalid_vector_raises_value_error(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="not a vector"):
        resize_vector(bad)


def test_zero_vector_is_resized_to_a_vector_of_equal_numbers() -> None:
    assert len(set(resize_vector([0.0] * 1000))) == 1
