"""Candidates by four bits contain the nearest vectors, and exact ranking equals that of floats."""

from collections.abc import Sequence
from threading import Thread
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from waybook.app.request.search.portable_search import MIN_CANDIDATES
from waybook.research import ranking, vector_blocks
from waybook.research.fusion import RankedPassage
from waybook.research.quantization import ZERO_REMAINDER, quantize
from waybook.research.ranking import VectorIndex, rank_exactly

MANY = 10_000
KEY_BYTES = 20
RECORD_BYTES = 276
#: Standard error of a cosine that is estimated from the levels of a vector.
LEVEL_ERROR = 0.009


def unit_vectors(count: int, seed: int = 1) -> NDArray[np.float64]:
    vectors = np.random.default_rng(seed).standard_normal((count, 256))
    made: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def key(number: int, part: int = 1) -> bytes:
    return UUID(int=number << 64 | number * 7919).bytes + part.to_bytes(4)


def records_of(vectors: NDArray[np.float64], first: int = 0) -> NDArray[np.void]:
    """Return exact records, quantized together, because `quantize` takes one vector at a time."""
    peaks = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9)
    steps = np.rint(vectors * (127 * 16 / peaks)).astype(np.int16) + 8
    codes, remainders = steps >> 4, (steps & 15).astype(np.uint8)
    records = np.empty(len(vectors), vector_blocks.EXACT_RECORDS)
    numbers = np.arange(first, first + len(vectors), dtype=np.uint64)
    records["high"], records["low"], records["part"] = numbers, numbers * np.uint64(7919), 1
    records["codes"] = codes
    records["remainders"] = remainders[:, :128] | remainders[:, 128:] << 4
    return records


def packed(vectors: NDArray[np.float64], first: int = 0) -> bytes:
    """Return packed records without the remainders."""
    records = records_of(vectors, first)
    return b"".join([record.tobytes()[:RECORD_BYTES] for record in records])


def exact(vectors: NDArray[np.float64], first: int = 0) -> bytes:
    return records_of(vectors, first).tobytes()


def numbers(hits: Sequence[RankedPassage]) -> list[int]:
    return [UUID(hit.subject_id).int >> 64 for hit in hits]


def candidates(index: VectorIndex, query: Sequence[float], most: int) -> list[int]:
    """Return the numbers of the candidates, best first."""
    keys = index.candidates(query, most)
    return [int.from_bytes(keys[start : start + 8]) for start in range(0, len(keys), KEY_BYTES)]


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float64]:
    return unit_vectors(MANY)


@pytest.fixture(scope="module")
def records(vectors: NDArray[np.float64]) -> bytes:
    return packed(vectors)


@pytest.fixture
def index(records: bytes) -> VectorIndex:
    return VectorIndex(records)


def test_vector_search_candidates_include_the_fifty_most_similar_vectors(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    for n in (0, 4_096, MANY - 1):
        query = vectors[n] + 0.5 * vectors[n - 1]
        query /= np.linalg.norm(query)
        cosines = vectors @ query
        best = np.argsort(-cosines)[:50].tolist()
        candidate_numbers = candidates(index, query.tolist(), MIN_CANDIDATES)
        assert candidate_numbers[0] == best[0] == n
        assert {*best} <= {*candidate_numbers}


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 3_000),
    topics=st.integers(1, 40),
    spread=st.floats(0.01, 3.0),
)
def test_fast_vector_search_returns_similar_vectors(
    seed: int, count: int, topics: int, spread: float
) -> None:
    """Vectors that differ by less than the error of their levels may be missed for one another."""
    chance = np.random.default_rng(seed)
    made = unit_vectors(topics, seed)[chance.integers(0, topics, count)]
    made = made + spread / 16 * chance.standard_normal(made.shape)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    query = made[0] + chance.standard_normal(256) / 32
    query /= np.linalg.norm(query)
    records = records_of(made)
    index = VectorIndex()
    index.change(records.tobytes(), b"")
    candidate_numbers = candidates(index, query.tolist(), MIN_CANDIDATES)
    hits = rank_exactly(records[candidate_numbers].tobytes(), query.tolist(), 50)
    cosines = made @ query
    nearest = np.sort(cosines)[:-11:-1]
    assert np.all(cosines[numbers(hits)[:10]] >= nearest - LEVEL_ERROR)


@pytest.mark.parametrize("count", [3_000, ranking.LARGE_ROWS + 1_000])
@pytest.mark.parametrize("topics", [1, 100, 25_000])
def test_fast_vector_search_finds_nearly_all_exact_hits(topics: int, count: int) -> None:
    chance = np.random.default_rng(topics)
    made = unit_vectors(topics)[chance.integers(0, topics, count)]
    made += chance.standard_normal(made.shape) / 16
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    index, hits = VectorIndex(packed(made)), 0
    for number in range(20):
        query = made[number] + 1.5 / 16 * chance.standard_normal(256)
        cosines = made @ query
        best = np.argsort(-cosines)[:10].tolist()
        hits += len({*best} & {*candidates(index, query.tolist(), MIN_CANDIDATES)})
    assert hits >= 0.98 * 20 * 10


def test_deleted_vectors_of_a_large_index_are_no_candidates() -> None:
    made = unit_vectors(ranking.LARGE_ROWS + 500)
    index = VectorIndex(packed(made))
    index.change(b"", b"".join(key(n) for n in range(0, 1_000, 2)))
    for number in (0, 1, 998, 999, len(made) - 1):
        candidate_numbers = candidates(index, made[number].tolist(), MIN_CANDIDATES)
        assert len(candidate_numbers) == MIN_CANDIDATES
        assert not {*candidate_numbers} & {*range(0, 1_000, 2)}
        assert (candidate_numbers[0] == number) is (number % 2 == 1)


def test_equal_similarities_in_a_large_index_are_ordered_by_key() -> None:
    same = unit_vectors(1).repeat(ranking.LARGE_ROWS + 100, axis=0)
    assert candidates(VectorIndex(packed(same)), same[0].tolist(), 50) == list(range(50))


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 300), most=st.integers(1, 60))
def test_exact_ranking_equals_a_ranking_with_full_precision(
    seed: int, count: int, most: int
) -> None:
    made = unit_vectors(count + 1, seed)
    query, stored = made[0], made[1:]
    hits = rank_exactly(exact(stored), query.tolist(), most)
    cosines = stored @ query
    best = np.sort(cosines)[::-1][:most]
    assert len({*numbers(hits)}) == len(hits) == min(most, count)
    for hit, number, cosine in zip(hits, numbers(hits), best, strict=True):
        assert hit.measure == pytest.approx(cosines[number], abs=2e-4)
        assert hit.measure == pytest.approx(cosine, abs=2e-4)


@given(seed=st.integers(0, 2**32 - 1))
def test_vectors_without_extra_precision_are_ranked(seed: int) -> None:
    query, stored = unit_vectors(1, seed)[0], unit_vectors(80, seed + 1)
    records = records_of(stored)
    records["remainders"] = ZERO_REMAINDER << 4 | ZERO_REMAINDER
    codes = records["codes"].astype(float)
    cosines = codes @ query / np.linalg.norm(codes, axis=1)
    hits = rank_exactly(records.tobytes(), query.tolist(), 80)
    measures = {number: hit.measure for number, hit in zip(numbers(hits), hits, strict=True)}
    assert measures == pytest.approx(dict(enumerate(cosines.tolist())), abs=1e-6)


@given(st.lists(st.floats(-1, 1), min_size=256, max_size=256))
def test_quantizing_moves_a_component_by_at_most_half_a_step(
    vector: list[float],
) -> None:
    codes, remainders = map(list, quantize(vector))
    parts = [byte & 15 for byte in remainders] + [byte >> 4 for byte in remainders]
    signed = [code - 256 if code > 127 else code for code in codes]
    peak = max(map(abs, vector)) or 1.0
    for number, code, part in zip(vector, signed, parts, strict=True):
        assert code + (part - 8) / 16 == pytest.approx(number / peak * 127, abs=1 / 32 + 1e-9)


def test_vectors_quantized_together_or_alone_are_equal() -> None:
    vectors = unit_vectors(20)
    singly = [key(n) + b"".join(quantize(vector)) for n, vector in enumerate(vectors.tolist())]
    assert exact(vectors) == b"".join(singly)


def test_equally_similar_vectors_are_ranked_in_key_order() -> None:
    same = unit_vectors(1).repeat(300, axis=0)
    query = same[0].tolist()
    index = VectorIndex(packed(same[:200], first=100))
    index.extend(packed(same[200:], first=0))
    assert candidates(index, query, 150) == list(range(150))
    hits = rank_exactly(exact(same[:200], first=100) + exact(same[200:]), query, 150)
    assert numbers(hits) == list(range(150))
    assert hits[0].measure == pytest.approx(1, abs=0.001)


def test_duplicate_vector_record_is_ranked_only_once() -> None:
    records = exact(unit_vectors(3))
    hits = rank_exactly(records + records, unit_vectors(1)[0].tolist(), 5)
    assert sorted(numbers(hits)) == [0, 1, 2]


def test_vector_search_in_an_empty_index_returns_no_candidates() -> None:
    assert VectorIndex().candidates([1.0] * 256, 50) == b""
    assert rank_exactly(b"", [1.0] * 256, 50) == []


def test_similarity_of_a_zero_vector_is_zero() -> None:
    (hit,) = rank_exactly(exact(np.zeros((1, 256))), unit_vectors(1)[0].tolist(), 5)
    assert hit.measure == 0


def test_vector_index_change_adds_and_removes_vectors(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    index.change(b"", key(5) + key(9_000) + key(123_456))
    assert len(index) == MANY - 2
    assert 5 not in candidates(index, vectors[5].tolist(), 50)
    newer = unit_vectors(3, seed=2)
    index.change(exact(newer, first=MANY), b"")
    assert len(index) == MANY + 1
    assert candidates(index, newer[1].tolist(), 1) == [MANY + 1]


def test_applying_a_vector_index_change_twice_adds_no_duplicates(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    newer = exact(unit_vectors(3, seed=2), first=MANY)
    for _ in range(2):
        index.change(newer + exact(vectors[:2]), key(7))
    assert len(index) == MANY + 2


def test_passage_stored_again_has_the_new_vector(
    index: VectorIndex,
) -> None:
    newer = unit_vectors(1, seed=3)
    index.change(exact(newer, first=11), key(11))
    assert candidates(index, newer[0].tolist(), 1) == [11]
    assert len(index) == MANY


def test_vector_index_deletes_only_the_named_passage_of_a_document() -> None:
    vector, other = unit_vectors(2).tolist()
    index = VectorIndex(key(1, 1) + quantize(vector).codes + key(1, 2) + quantize(other).codes)
    index.change(b"", key(1, 1))
    assert (index.candidates(vector, 5), len(index)) == (key(1, 2), 1)


def test_vector_index_shrinks_after_most_vectors_are_deleted(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    before = index.size_bytes
    assert before / MANY < 1.25 * vector_blocks.ROW_BYTES
    index.change(b"", b"".join(key(n) for n in range(MANY // 2 + MANY // 4)))
    assert len(index) == MANY // 4
    assert index.size_bytes < before / 2
    remaining = vectors[MANY - 1].tolist()
    assert candidates(index, remaining, 1) == [MANY - 1]


def test_vector_index_takes_at_most_200_bytes_per_vector(records: bytes) -> None:
    full_blocks = records[: 2 * vector_blocks.BLOCK_ROWS * RECORD_BYTES]
    arrays = [
        array
        for block in VectorIndex(full_blocks)._blocks
        for array in (*block.content, block.deleted)
    ]
    taken = sum(array.nbytes for array in arrays)
    assert taken == VectorIndex(full_blocks).size_bytes
    assert taken <= 200 * 2 * vector_blocks.BLOCK_ROWS


def test_vector_index_of_three_vectors_takes_less_than_20000_bytes() -> None:
    assert VectorIndex(packed(unit_vectors(3))).size_bytes < 20_000


def test_vector_search_survives_concurrent_index_changes(
    index: VectorIndex, vectors: NDArray[np.float64]
) -> None:
    faults: list[BaseException] = []

    def rank() -> None:
        try:
            for n in range(60):
                assert len({*candidates(index, vectors[n].tolist(), 50)}) == 50
        except BaseException as error:  # noqa: BLE001 - handed to the test
            faults.append(error)

    thread = Thread(target=rank)
    thread.start()
    for n in range(60):
        newer = exact(unit_vectors(50, seed=n), first=MANY + 50 * n)
        index.change(newer, b"".join(key(MANY - 1 - 60 * n - k) for k in range(60)))
    thread.join()
    assert faults == []
