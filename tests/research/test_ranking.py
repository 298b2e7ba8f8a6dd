"""The vector index ranks passages as a search with exact vectors would, also after changes."""

from collections.abc import Sequence
from threading import Thread
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from waybook.research.fusion import RankedPassage
from waybook.research.ranking import VectorIndex, rank_exactly

MANY = 10_000


def unit_vectors(count: int, seed: int = 1) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, 256))
    made: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def key(number: int, part: int = 1) -> bytes:
    return UUID(int=number << 64 | number * 7919).bytes + part.to_bytes(4)


def rounded(vectors: NDArray[np.float64]) -> NDArray[np.int16]:
    return np.rint(vectors * 32_767).astype("<i2")


def packed(vectors: NDArray[np.float64], first: int = 0) -> bytes:
    stored = rounded(vectors)
    return b"".join(key(number) + row.tobytes() for number, row in enumerate(stored, first))


def numbers(hits: Sequence[RankedPassage]) -> list[int]:
    return [UUID(hit.subject_id).int >> 64 for hit in hits]


def nearest(index: VectorIndex, query: NDArray[np.float64], most: int) -> list[int]:
    return numbers(index.nearest(query.tolist(), most))


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float64]:
    return unit_vectors(MANY)


@pytest.fixture(scope="module")
def records(vectors: NDArray[np.float64]) -> bytes:
    return packed(vectors)


@pytest.fixture
def index(records: bytes) -> VectorIndex:
    return VectorIndex(records)


def test_vector_index_returns_exactly_the_fifty_nearest_vectors(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    for n in (0, 4_096, MANY - 1):
        query = vectors[n] + 0.5 * vectors[n - 1]
        query /= np.linalg.norm(query)
        best = np.argsort(-(rounded(vectors) @ query))[:50].tolist()
        assert nearest(index, query, 50) == best
        assert best[0] == n


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 300), most=st.integers(1, 60))
def test_ranking_of_rounded_vectors_equals_a_ranking_of_exact_vectors(
    seed: int, count: int, most: int
) -> None:
    made = unit_vectors(count + 1, seed)
    query, stored = made[0], made[1:]
    hits = rank_exactly(packed(stored), query.tolist(), most)
    cosines = stored @ query
    best = np.sort(cosines)[::-1][:most]
    assert len({*numbers(hits)}) == len(hits) == min(most, count)
    for hit, number, cosine in zip(hits, numbers(hits), best, strict=True):
        assert hit.measure == pytest.approx(cosines[number], abs=1e-4)
        assert hit.measure == pytest.approx(cosine, abs=1e-4)


def test_equally_similar_vectors_are_ranked_in_key_order() -> None:
    same = unit_vectors(1).repeat(300, axis=0)
    index = VectorIndex(packed(same[:200], first=100))
    index.extend(packed(same[200:]))
    assert nearest(index, same[0], 150) == list(range(150))
    hits = rank_exactly(packed(same[:200], 100) + packed(same[200:]), same[0].tolist(), 150)
    assert numbers(hits) == list(range(150))
    assert hits[0].measure == pytest.approx(1, abs=0.001)


def test_vector_search_in_an_empty_index_returns_nothing() -> None:
    assert VectorIndex().nearest([1.0] * 256, 50) == []
    assert rank_exactly(b"", [1.0] * 256, 50) == []


def test_similarity_of_a_zero_vector_is_zero() -> None:
    (hit,) = rank_exactly(packed(np.zeros((1, 256))), unit_vectors(1)[0].tolist(), 5)
    assert hit.measure == 0


def test_vector_index_change_adds_and_removes_vectors(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    index.change(b"", key(5) + key(9_000) + key(123_456))
    assert len(index) == MANY - 2
    assert 5 not in nearest(index, vectors[5], MANY)
    newer = unit_vectors(3, seed=2)
    index.change(packed(newer, first=MANY), b"")
    assert len(index) == len(nearest(index, newer[1], 2 * MANY)) == MANY + 1
    assert nearest(index, newer[1], 1) == [MANY + 1]


def test_passage_stored_again_has_the_new_vector(index: VectorIndex) -> None:
    newer = unit_vectors(1, seed=3)
    index.change(packed(newer, first=11), key(11))
    assert nearest(index, newer[0], 1) == [11]
    assert len(index) == MANY


def test_vector_index_deletes_only_the_named_passage_of_a_text() -> None:
    first, second = rounded(unit_vectors(2))
    index = VectorIndex(key(1, 1) + first.tobytes() + key(1, 2) + second.tobytes())
    index.change(b"", key(1, 1))
    assert [hit.part for hit in index.nearest(unit_vectors(1)[0].tolist(), 5)] == [2]
    assert len(index) == 1


def test_vector_index_shrinks_after_most_vectors_are_deleted(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    before = index.size_bytes
    index.change(b"", b"".join(key(n) for n in range(MANY // 2 + MANY // 4)))
    assert len(index) == MANY // 4
    assert index.size_bytes < before / 2
    assert nearest(index, vectors[MANY - 1], 1) == [MANY - 1]


def test_vector_search_survives_concurrent_index_changes(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    faults: list[BaseException] = []

    def rank() -> None:
        try:
            for n in range(60):
                assert len({*nearest(index, vectors[n], 50)}) == 50
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)

    thread = Thread(target=rank)
    thread.start()
    for n in range(60):
        newer = packed(unit_vectors(50, seed=n), first=MANY + 50 * n)
        index.change(newer, b"".join(key(MANY - 1 - 60 * n - k) for k in range(60)))
    thread.join()
    assert faults == []
