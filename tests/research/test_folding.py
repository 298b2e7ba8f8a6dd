"""Vectors of any width, folded to ours."""

from math import sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.research.embedding import DIMENSIONS, MAX_DIMENSIONS, cosine_similarity, resize_vector

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=3 * DIMENSIONS))
def test_whatever_comes_in_a_vector_of_our_width_and_of_unit_length_comes_out(
    given_: list[float],
) -> None:
    found = resize_vector(given_)
    assert len(found) == DIMENSIONS
    assert sqrt(sum(n * n for n in found)) == pytest.approx(1)
    assert resize_vector(given_) == found


def by_chance(width: int, seed: int) -> list[float]:
    chance = Random(seed)  # noqa: S311 - nothing is hidden by it
    return [chance.gauss(0, 1) for _ in range(width)]


def angle(one: list[float], other: list[float]) -> float:
    lengths = sqrt(sum(n * n for n in one)) * sqrt(sum(n * n for n in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths


@pytest.mark.parametrize("width", [1, 64, DIMENSIONS])
def test_what_is_not_wider_keeps_its_angles(width: int) -> None:
    one, other = by_chance(width, 1), by_chance(width, 2)
    assert cosine_similarity(resize_vector(one), resize_vector(other)) == pytest.approx(
        angle(one, other)
    )


@pytest.mark.parametrize("width", [384, 768, 1024, 1536, 3072])
def test_what_is_wider_keeps_its_angles_nearly(width: int) -> None:
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
def test_what_is_no_vector_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="not a vector"):
        resize_vector(bad)


def test_a_vector_of_nothing_lies_nowhere_in_particular() -> None:
    assert len(set(resize_vector([0.0] * 1000))) == 1
