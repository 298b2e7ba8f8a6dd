"""Exact in-memory ranking of byte-quantized vectors by cosine similarity.

Import this module only when it is needed: loading numpy would double the startup time of a client.
Vectors are stored in blocks of a fixed size. Adding vectors therefore does not copy the existing
vectors, and ranking needs floats for only one block at a time. One thread may change an index while
others rank its vectors: a row is complete before it is counted, and a deleted row is only marked.

A quantized vector has 256 signed bytes instead of 256 floats; its number with the greatest
magnitude becomes 127. The scale is not stored: vectors have unit length, so the cosine with a query
is the dot product divided by the length of the quantized vector. The mean error of a cosine is
0.0006 compared with float32; neighbors in a ranking of real notes differ by 0.007.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from waybook.research.embedding import DIMENSIONS
from waybook.research.fusion import RankedPassage

#: Greatest code to which a vector component is quantized. The code -128 is not used, so that a
#: vector and its opposite have opposite codes.
MAX_CODE = 127


def quantize(vector: Sequence[float]) -> bytes:
    """Quantize a vector to one signed byte per component.

    >>> quantize([0.5, -0.25, 0.0]).hex()
    '7fc000'
    """
    peak = max(map(abs, vector))
    if not peak:
        return bytes(len(vector))
    factor = MAX_CODE / peak
    return bytes([round(number * factor) & 0xFF for number in vector])


BLOCK_ROWS = 4_096
#: Number of rows in the first block of a small index. When the block is full, the number is
#: doubled, until the block has its full size.
MIN_BLOCK_ROWS = 64
#: Share of deleted rows beyond which the blocks are rewritten without the deleted rows.
MAX_DELETED_SHARE = 0.25

#: Fields of a packed key: the two halves of a subject's id, and the number of the passage within
#: the subject.
KEY: Final = [("high", ">u8"), ("low", ">u8"), ("part", ">i4")]
KEYS: Final = np.dtype(KEY)
RECORDS: Final = np.dtype([*KEY, ("codes", "i1", (DIMENSIONS,))])
#: Number of bytes of memory that each vector takes for its codes, its scale, its key, and its
#: deleted flag.
ROW_BYTES = DIMENSIONS + 4 + 20 + 1


class Block:
    """Block of up to `BLOCK_ROWS` vectors, as one array for each field."""

    def __init__(self) -> None:
        self.rows = 0
        self.codes = np.empty((0, DIMENSIONS), np.int8)
        self.scales = np.empty(0, np.float32)
        self.high = np.empty(0, np.uint64)
        self.low = np.empty(0, np.uint64)
        self.parts = np.empty(0, np.int32)
        self.deleted = np.zeros(0, np.bool_)

    @property
    def capacity(self) -> int:
        """Return the number of rows for which the block has allocated memory."""
        return len(self.deleted)

    def append(self, records: NDArray[np.void]) -> int:
        """Append as many records as fit into the block; return how many were appended."""
        taken = records[: BLOCK_ROWS - self.rows]
        self._reserve(self.rows + len(taken))
        place = slice(self.rows, self.rows + len(taken))
        codes = taken["codes"]
        lengths = np.sqrt(np.square(codes, dtype=np.float32).sum(axis=1))
        self.codes[place] = codes
        self.scales[place] = 1 / np.maximum(lengths, 1)
        self.high[place], self.low[place] = taken["high"], taken["low"]
        self.parts[place] = taken["part"]
        # The row count is updated last, because a thread that is ranking at the same time must not
        # see rows that are not written yet.
        self.rows += len(taken)
        return len(taken)

    def _reserve(self, rows: int) -> None:
        capacity = max(self.capacity, MIN_BLOCK_ROWS)
        while capacity < rows:
            capacity *= 2
        if capacity == self.capacity:
            return
        more = capacity - self.capacity
        # New arrays are allocated, so that a thread that is ranking at the same time can continue
        # with the old arrays.
        self.codes = np.concatenate([self.codes, np.empty((more, DIMENSIONS), np.int8)])
        self.scales = np.concatenate([self.scales, np.empty(more, np.float32)])
        self.high = np.concatenate([self.high, np.empty(more, np.uint64)])
        self.low = np.concatenate([self.low, np.empty(more, np.uint64)])
        self.parts = np.concatenate([self.parts, np.empty(more, np.int32)])
        self.deleted = np.concatenate([self.deleted, np.zeros(more, np.bool_)])

    def cosines(
        self, query: NDArray[np.float32], floats: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return each row's cosine similarity to the query (-inf if deleted)."""
        # The block may have more rows than `floats`, because a thread that adds rows may have
        # enlarged the block since `floats` was allocated.
        rows = min(self.rows, len(floats))
        np.copyto(floats[:rows], self.codes[:rows])
        # The operator `@` is not used, because BLAS would start one thread per core for each block.
        # On busy cores, these threads wait for each other ten times as long as the product takes.
        similarities: NDArray[np.float32] = np.einsum("ij,j->i", floats[:rows], query)
        similarities *= self.scales[:rows]
        similarities[self.deleted[:rows]] = -np.inf
        return similarities

    def matching(self, keys: "Keys") -> NDArray[np.intp]:
        """Return the rows whose vector has one of these keys and is not deleted."""
        rows = self.rows
        maybe = np.flatnonzero(np.isin(self.low[:rows], keys.low) & ~self.deleted[:rows])
        matches = [row for row in maybe.tolist() if self.key(row) in keys.exact]
        return np.array(matches, np.intp)

    def key(self, row: int) -> tuple[int, int, int]:
        """Return the key of the vector in a row."""
        return int(self.high[row]), int(self.low[row]), int(self.parts[row])

    def live(self) -> NDArray[np.void]:
        """Return the vectors in the block that are not deleted, as records."""
        live_rows = np.flatnonzero(~self.deleted[: self.rows])
        records = np.empty(len(live_rows), RECORDS)
        records["high"], records["low"] = self.high[live_rows], self.low[live_rows]
        records["part"], records["codes"] = self.parts[live_rows], self.codes[live_rows]
        return records


class Keys:
    """Set of vector keys, stored so that their rows in a block are found quickly."""

    def __init__(self, records: NDArray[np.void]) -> None:
        self.low = records["low"].astype(np.uint64)
        columns = (records[name].tolist() for name in ("high", "low", "part"))
        self.exact = frozenset(zip(*columns, strict=True))


class VectorIndex:
    """Search index with the vectors of one org and one embedding model."""

    def __init__(self, packed: bytes = b"") -> None:
        """Create the index from packed records; each contains a key and a quantized vector."""
        self._blocks: list[Block] = []
        self._deleted = 0
        if packed:
            self._append(np.frombuffer(packed, RECORDS))

    def __len__(self) -> int:
        """Return the number of vectors in the index."""
        return sum(block.rows for block in self._blocks) - self._deleted

    @property
    def size_bytes(self) -> int:
        """Return the memory in bytes that all blocks of the index use, with unused capacity."""
        return sum(block.capacity for block in self._blocks) * ROW_BYTES

    def extend(self, packed: bytes) -> None:
        """Add vectors from packed records, whose keys must not be in the index yet."""
        self._append(np.frombuffer(packed, RECORDS))

    def change(self, added: bytes, deleted: bytes) -> None:
        """Remove vectors with `deleted` keys, then add vectors in `added` with new keys."""
        self._remove(Keys(np.frombuffer(deleted, KEYS)))
        self._append(self._new(np.frombuffer(added, RECORDS)))
        if self._deleted > MAX_DELETED_SHARE * (len(self) + self._deleted):
            self._compact()

    def nearest(self, query: Sequence[float], most: int) -> list[RankedPassage]:
        """Return the vectors nearest to the query, best first; ties are ordered by key."""
        vector = np.array(query, np.float32)
        blocks = list(self._blocks)
        room = max((block.capacity for block in blocks), default=0)
        floats = np.empty((room, DIMENSIONS), np.float32)
        best: list[tuple[float, int, int, int]] = []
        for block in blocks:
            best = sorted([*best, *_best_of(block, block.cosines(vector, floats), most)])[:most]
        return [
            RankedPassage(subject_id=str(UUID(int=high << 64 | low)), part=part, measure=-distance)
            for distance, high, low, part in best
        ]

    def _new(self, records: NDArray[np.void]) -> NDArray[np.void]:
        """Return the vector records whose keys are not in the index yet."""
        if not len(records):
            return records
        keys = Keys(records)
        known = {block.key(row) for block in self._blocks for row in block.matching(keys).tolist()}
        if not known:
            return records
        columns = (records[name].tolist() for name in ("high", "low", "part"))
        return records[[key not in known for key in zip(*columns, strict=True)]]

    def _append(self, records: NDArray[np.void]) -> None:
        while len(records):
            if not self._blocks or self._blocks[-1].rows == BLOCK_ROWS:
                self._blocks.append(Block())
            records = records[self._blocks[-1].append(records) :]

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
            compact._append(block.live())
        self._blocks, self._deleted = compact._blocks, 0


def _best_of(
    block: Block, cosines: NDArray[np.float32], most: int
) -> Iterator[tuple[float, int, int, int]]:
    """Yield distance and key of a block's `most` nearest rows, and of rows as near as the last."""
    rows = np.flatnonzero(np.isfinite(cosines))
    if len(rows) > most:
        least = np.partition(cosines, -most)[-most]
        rows = np.flatnonzero(cosines >= least)
    for row in rows.tolist():
        yield (-float(cosines[row]), *block.key(row))
