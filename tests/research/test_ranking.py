"""Exact ranking of quantized vectors equals a ranking with floats, after any change."""

from collections.abc import Sequence
from threading import Thread
from uuid import UUID

import numpy as np
import pytest
from numpy.typing import NDArray

from waybook.research import ranking
from waybook.research.fusion import RankedPassage
from waybook.research.ranking import VectorIndex, quantize

MANY = 10_000


def unit_vectors(count: int, seed: int = 1) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, 256))
    made: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def key(number: int, part: int = 1) -> bytes:
    return UUID(int=number << 64 | number * 7919).bytes + part.to_bytes(4)


def packed(vectors: Sequence[Sequence[float]], first: int = 0) -> bytes:
    return b"".join(key(first + n) + quantize(vector) for n, vector in enumerate(vectors))


def numbers(hits: Sequence[RankedPassage]) -> list[int]:
    return [UUID(hit.subject_id).int >> 64 for hit in hits]


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float64]:
    return unit_vectors(MANY)


@pytest.fixture(scope="module")
def records(vectors: NDArray[np.float64]) -> bytes:
    return packed(vectors.tolist())


@pytest.fixture
def index(records: bytes) -> VectorIndex:
    return VectorIndex(records)


def test_nearest_vectors_are_ranked_like_exact_cosine_similarities(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    for n in (0, 4_096, MANY - 1):
        query = vectors[n] + 0.5 * vectors[n - 1]
        query /= np.linalg.norm(query)
        exact = vectors @ query
        hits = index.nearest(query.tolist(), 50)
        best = np.argsort(-exact)[:50]
        assert numbers(hits)[0] == best[0] == n
        assert len({*numbers(hits)} & {*best.tolist()}) >= 48
        for hit, number in zip(hits, numbers(hits), strict=True):
            assert hit.measure == pytest.approx(exact[number], abs=0.004)


def test_nearest_vectors_with_equal_similarity_are_sorted_by_key() -> None:
    same = unit_vectors(1).tolist() * 300
    index = VectorIndex(packed(same[:200], first=100))
    index.extend(packed(same[200:], first=0))
    hits = index.nearest(same[0], 150)
    assert numbers(hits) == list(range(150))
    assert hits[0].measure == pytest.approx(1, abs=0.001)


def test_vector_search_in_an_empty_index_returns_an_empty_list() -> None:
    assert VectorIndex().nearest([1.0] * 256, 50) == []


def test_similarity_of_a_zero_vector_is_zero() -> None:
    (hit,) = VectorIndex(packed([[0.0] * 256])).nearest(unit_vectors(1)[0].tolist(), 5)
    assert hit.measure == 0


def test_vector_index_change_adds_and_removes_vectors(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    index.change(b"", key(5) + key(9_000) + key(123_456))
    assert len(index) == MANY - 2
    assert 5 not in numbers(index.nearest(vectors[5].tolist(), 50))
    newer = unit_vectors(3, seed=2)
    index.change(packed(newer.tolist(), first=MANY), b"")
    assert len(index) == MANY + 1
    assert numbers(index.nearest(newer[1].tolist(), 1)) == [MANY + 1]


def test_applying_a_vector_index_change_twice_adds_no_duplicates(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    newer = packed(unit_vectors(3, seed=2).tolist(), first=MANY)
    for _ in range(2):
        index.change(newer + packed(vectors[:2].tolist()), key(7))
    assert len(index) == MANY + 2


def test_passage_that_is_deleted_and_stored_again_has_the_new_vector(
    index: VectorIndex,
) -> None:
    newer = unit_vectors(1, seed=3).tolist()
    index.change(packed(newer, first=11), key(11))
    assert numbers(index.nearest(newer[0], 1)) == [11]
    assert len(index) == MANY


def test_vector_index_deletes_only_the_named_passage_of_a_document() -> None:
    vector, other = unit_vectors(2).tolist()
    index = VectorIndex(key(1, 1) + quantize(vector) + key(1, 2) + quantize(other))
    index.change(b"", key(1, 1))
    assert [(hit.part, len(index)) for hit in index.nearest(vector, 5)] == [(2, 1)]


def test_vector_index_shrinks_after_most_vectors_are_deleted(index: VectorIndex) -> None:
    before = index.size_bytes
    assert before / MANY < 1.25 * ranking.ROW_BYTES
    index.change(b"", b"".join(key(n) for n in range(MANY // 2 + MANY // 4)))
    assert len(index) == MANY // 4
    assert index.size_bytes < before / 2


def test_vector_index_of_three_vectors_takes_less_than_20000_bytes() -> None:
    assert VectorIndex(packed(unit_vectors(3).tolist())).size_bytes < 20_000


def test_vector_search_does_not_fail_during_concurrent_index_changes(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    faults: list[BaseException] = []

    def rank() -> None:
        try:
            for n in range(60):
                hits = index.nearest(vectors[n].tolist(), 50)
                assert len({*numbers(hits)}) == 50
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)

    thread = Thread(target=rank)
    thread.start()
    for n in range(60):
        newer = packed(unit_vectors(50, seed=n).tolist(), first=MANY + 50 * n)
        index.change(newer, b"".join(key(MANY - 1 - 60 * n - k) for k in range(60)))
    thread.join()
    assert faults == []
