"""Ranks vectors by cosine similarity.

Import this module only when it is needed, because loading numpy takes time. Most vectors are ruled
out by a fast, rough comparison before the rest is ranked exactly.
"""

import itertools
from collections.abc import Sequence
from typing import TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from waybook.research.embedding import DIMENSIONS
from waybook.research.fusion import RankedPassage
from waybook.research.quantization import REMAINDER_STEPS, ZERO_REMAINDER
from waybook.research.vector_blocks import (
    BLOCK_ROWS,
    EXACT_RECORDS,
    HALF,
    KEYS,
    MAX_LEVEL,
    MIDDLE_LEVEL,
    RECORDS,
    ROW_BYTES,
    SIGN_WORDS,
    Block,
    Floats,
    Keys,
    make_rows,
    pack_bits,
)

#: Number of rows that fit into a core's cache, which makes ranking 1.5 times as fast.
SCRATCH_ROWS = 512
#: A large index first compares vectors by their signs.
LARGE_ROWS = 16_384
FIRST_SHARE = 0.01
CANDIDATES_PER_HIT = 4
MAX_SIGN_ERROR = 0.1
MAGNITUDE_BITS = 3
#: If a larger share of the rows is deleted, the blocks are rewritten.
MAX_DELETED_SHARE = 0.25


Selection: TypeAlias = list[tuple[Block, NDArray[np.intp]]]


class Query:
    """A query vector, prepared for comparison with stored vectors."""

    def __init__(self, vector: Sequence[float]) -> None:
        components = np.array(vector, np.float32)
        high = components[HALF:] / (MAX_LEVEL + 1)
        self._weights = np.concatenate([components[:HALF] - high, high])
        self._middle = np.float32(MIDDLE_LEVEL * float(components.sum()))
        self._low = np.empty((SCRATCH_ROWS, HALF), np.uint8)
        self._floats = np.empty((SCRATCH_ROWS, DIMENSIONS), np.float32)
        magnitudes = np.abs(components)
        self._step = max(float(magnitudes.max()), 1e-9) / (2**MAGNITUDE_BITS - 1)
        rounded = np.rint(magnitudes / self._step).astype(np.uint8)
        rounded[-1] = 0
        self._sum = np.float32(rounded.sum() * self._step)
        # numpy combines arrays of the same shape twice as fast.
        bits = [
            components >= 0,
            *(rounded >> bit & 1 == 1 for bit in reversed(range(MAGNITUDE_BITS))),
        ]
        repeated = [pack_bits(row[np.newaxis]).repeat(BLOCK_ROWS, axis=1) for row in bits]
        self._signs, self._planes = repeated[0], repeated[1:]
        self._words = np.empty((2, SIGN_WORDS, BLOCK_ROWS), np.uint64)
        self._counts = np.empty((SIGN_WORDS, BLOCK_ROWS), np.uint8)
        self._products = np.empty(BLOCK_ROWS, np.float32)

    def compare_signs(self, block: Block, out: Floats) -> None:
        """Write the cosines of a block's first rows to `out`, estimated from their signs."""
        rows = len(out)
        different, masked = (words[:, :rows] for words in self._words)
        counts, products = self._counts[:, :rows], self._products[:rows]
        np.bitwise_xor(block.signs[:, :rows], self._signs[:, :rows], out=different)
        out[:] = 0
        for plane in self._planes:
            np.bitwise_and(different, plane[:, :rows], out=masked)
            np.bitwise_count(masked, out=counts)
            for word in counts[1:]:
                np.add(counts[0], word, out=counts[0])
            np.copyto(products, counts[0])
            out *= 2
            out += products
        out *= np.float32(-2 * self._step)
        out += self._sum
        out *= block.sign_scales[:rows]
        out[block.deleted[:rows]] = -np.inf

    def compare_levels(self, levels: NDArray[np.uint8], scales: Floats) -> Floats:
        cosines = np.empty(len(levels), np.float32)
        for start in range(0, len(levels), SCRATCH_ROWS):
            part = levels[start : start + SCRATCH_ROWS]
            low, floats = self._low[: len(part)], self._floats[: len(part)]
            np.bitwise_and(part, MAX_LEVEL, out=low)
            floats[:, :HALF] = low
            floats[:, HALF:] = part
            np.dot(floats, self._weights, out=cosines[start : start + len(part)])
        cosines -= self._middle
        cosines *= scales
        return cosines


class VectorIndex:
    def __init__(self, packed: bytes = b"") -> None:
        """Create the index from packed records. A record is a key and the codes of a vector."""
        self._blocks: list[Block] = []
        self._deleted = 0
        self.extend(packed)

    def __len__(self) -> int:
        return sum(block.rows for block in self._blocks) - self._deleted

    @property
    def size_bytes(self) -> int:
        return sum(block.capacity for block in self._blocks) * ROW_BYTES

    def extend(self, packed: bytes) -> None:
        """Add vectors from packed records with new keys."""
        self._append(np.frombuffer(packed, RECORDS))

    def change(self, added: bytes, deleted: bytes) -> None:
        """Remove the vectors with `deleted` keys, then add those in `added`."""
        self._remove(Keys(np.frombuffer(deleted, KEYS)))
        self._append(self._new(np.frombuffer(added, EXACT_RECORDS)))
        if self._deleted > MAX_DELETED_SHARE * (len(self) + self._deleted):
            self._compact()

    def candidates(self, query: Sequence[float], most: int) -> bytes:
        """Return the packed keys of the vectors that are approximately nearest to the query."""
        # Another thread may add rows meanwhile, so each number of rows is read once.
        blocks = [(block, block.rows) for block in self._blocks]
        prepared = Query(query)
        if sum(rows for _, rows in blocks) >= LARGE_ROWS:
            promising = _select_by_signs(blocks, prepared, most)
        else:
            promising = [(block, np.flatnonzero(~block.deleted[:rows])) for block, rows in blocks]
        cosines = _compare_levels(promising, prepared)
        best = _greatest(cosines, most)
        keys, start = [np.empty(0, KEYS)], 0
        for block, rows in promising:
            first, end = np.searchsorted(best, [start, start + len(rows)])
            keys.append(block.keys[rows[best[first:end] - start]])
            start += len(rows)
        ranked_keys = np.concatenate(keys, dtype=KEYS)
        return ranked_keys[_rank(cosines[best], ranked_keys)[:most]].tobytes()

    def _new(self, records: NDArray[np.void]) -> NDArray[np.void]:
        if not len(records):
            return records
        keys = Keys(records)
        known = {block.key(row) for block in self._blocks for row in block.matching(keys).tolist()}
        if not known:
            return records
        columns = (records[name].tolist() for name in KEYS.names or ())
        return records[[key not in known for key in zip(*columns, strict=True)]]

    def _append(self, records: NDArray[np.void]) -> None:
        while len(records):
            block = self._last_block()
            taken, records = records[: block.room], records[block.room :]
            block.append(make_rows(taken))

    def _last_block(self) -> Block:
        if not self._blocks or self._blocks[-1].rows == BLOCK_ROWS:
            self._blocks.append(Block())
        return self._blocks[-1]

    def _remove(self, keys: Keys) -> None:
        if not keys.exact:
            return
        for block in self._blocks:
            rows = block.matching(keys)
            block.deleted[rows] = True
            self._deleted += len(rows)

    def _compact(self) -> None:
        compact = VectorIndex()
        for block in self._blocks:
            live = np.flatnonzero(~block.deleted[: block.rows])
            while len(live):
                target = compact._last_block()
                taken, live = np.split(live, [target.room])
                target.append(block.content.take(taken))
        self._blocks, self._deleted = compact._blocks, 0


def _select_by_signs(blocks: Sequence[tuple[Block, int]], query: Query, most: int) -> Selection:
    """Return at least `most` rows that may be among the best, by a rough comparison."""
    starts = [0, *itertools.accumulate(rows for _, rows in blocks)]
    cosines = np.empty(starts[-1], np.float32)
    for (block, rows), start in zip(blocks, starts, strict=False):
        query.compare_signs(block, cosines[start : start + rows])

    def at_least(bound: np.float32) -> Selection:
        near = np.flatnonzero(cosines >= max(bound, np.float32(-DIMENSIONS)))
        cuts = np.searchsorted(near, starts)
        return [
            (block, near[cuts[number] : cuts[number + 1]] - starts[number])
            for number, (block, _) in enumerate(blocks)
        ]

    first = at_least(_nth_greatest(cosines, max(int(FIRST_SHARE * len(cosines)), most)))
    sure = _nth_greatest(_compare_levels(first, query), most // CANDIDATES_PER_HIT)
    return at_least(min(sure - np.float32(MAX_SIGN_ERROR), _nth_greatest(cosines, most)))


def _compare_levels(selection: Selection, query: Query) -> Floats:
    return query.compare_levels(
        np.concatenate([np.empty((0, HALF), np.uint8), *(b.levels[rows] for b, rows in selection)]),
        np.concatenate([np.empty(0, np.float32), *(b.scales[rows] for b, rows in selection)]),
    )


def rank_exactly(packed: bytes, query: Sequence[float], most: int) -> list[RankedPassage]:
    """Rank exact records by their cosine similarity to the query, best first."""
    records = np.frombuffer(packed, EXACT_RECORDS)
    cosines = np.empty(len(records), np.float32)
    vector = np.array(query, np.float32)
    for start in range(0, len(records), SCRATCH_ROWS):
        chunk = records[start : start + SCRATCH_ROWS]
        remainders = chunk["remainders"]
        parts = np.concatenate([remainders & MAX_LEVEL, remainders >> 4], axis=1)
        floats = parts.astype(np.float32) - ZERO_REMAINDER
        floats /= REMAINDER_STEPS
        floats += chunk["codes"]
        lengths = np.sqrt(np.square(floats).sum(axis=1))
        cosines[start : start + len(chunk)] = floats @ vector / np.maximum(lengths, 1)
    order = _rank(cosines, records)
    keys = records[order][[*(KEYS.names or ())]]
    once = np.ones(len(order), np.bool_)
    once[1:] = keys[1:] != keys[:-1]
    best = order[once][:most]
    return [
        RankedPassage(subject_id=str(UUID(int=high << 64 | low)), part=part, measure=cosine)
        for cosine, (high, low, part) in zip(
            cosines[best].tolist(), keys[once][:most].tolist(), strict=True
        )
    ]


def _nth_greatest(values: Floats, place: int) -> np.float32:
    if not len(values):
        return np.float32(-np.inf)
    place = min(max(place, 1), len(values))
    return np.float32(np.partition(values, -place)[-place])


def _greatest(values: Floats, most: int) -> NDArray[np.intp]:
    """Return the positions of the `most` greatest values, and of values equal to the last."""
    return np.flatnonzero(values >= _nth_greatest(values, most))


def _rank(cosines: Floats, keys: NDArray[np.void]) -> NDArray[np.intp]:
    return np.lexsort((keys["part"], keys["low"], keys["high"], -cosines))
