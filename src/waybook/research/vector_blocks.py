"""Vectors in memory, with a few bits of each component.

One thread may change a block while others read it.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from waybook.research.embedding import DIMENSIONS

BLOCK_ROWS = 4_096
MIN_BLOCK_ROWS = 64
SIGN_WORDS = DIMENSIONS // 64

LEVEL_CODES = 13
MAX_LEVEL = 15
MIDDLE_LEVEL = 7.5
HALF = DIMENSIONS // 2

KEY: Final = [("high", ">u8"), ("low", ">u8"), ("part", ">i4")]
KEYS: Final = np.dtype(KEY)
RECORDS: Final = np.dtype([*KEY, ("codes", "i1", (DIMENSIONS,))])
EXACT_RECORDS: Final = np.dtype(
    [*KEY, ("codes", "i1", (DIMENSIONS,)), ("remainders", "u1", (HALF,))]
)
ROW_BYTES = HALF + 8 * SIGN_WORDS + 2 * 4 + 20 + 1

Floats = NDArray[np.float32]


class Rows(NamedTuple):
    """Vectors with one array per field."""

    levels: NDArray[np.uint8]
    scales: Floats
    signs: NDArray[np.uint64]
    sign_scales: Floats
    keys: NDArray[np.void]

    def take(self, rows: NDArray[np.intp]) -> "Rows":
        signs = self.signs[:, rows]
        scales = self.scales[rows], signs, self.sign_scales[rows]
        return Rows(self.levels[rows], *scales, self.keys[rows])


def make_rows(records: NDArray[np.void]) -> Rows:
    codes = records["codes"]
    levels = np.floor_divide(codes, LEVEL_CODES) + (MAX_LEVEL + 1) // 2
    levels = np.clip(levels, 0, MAX_LEVEL).astype(np.uint8)
    lengths = np.sqrt(np.square(levels - np.float32(MIDDLE_LEVEL)).sum(axis=1))
    magnitudes = np.abs(codes, dtype=np.float32)
    sums = np.maximum(magnitudes.sum(axis=1), 1)
    keys = np.empty(len(records), KEYS)
    for name in KEYS.names or ():
        keys[name] = records[name]
    return Rows(
        levels=levels[:, :HALF] | levels[:, HALF:] << 4,
        scales=1 / lengths,
        signs=pack_bits(codes >= 0),
        sign_scales=np.sqrt(np.square(magnitudes).sum(axis=1)) / sums,
        keys=keys,
    )


def pack_bits(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    return np.packbits(bits, axis=1).view(np.uint64).T


class Block:
    def __init__(self) -> None:
        self.rows = 0
        self.levels = np.empty((0, HALF), np.uint8)
        self.scales = np.empty(0, np.float32)
        self.signs = np.empty((SIGN_WORDS, 0), np.uint64)
        self.sign_scales = np.empty(0, np.float32)
        self.keys = np.empty(0, KEYS)
        self.deleted = np.zeros(0, np.bool_)

    @property
    def capacity(self) -> int:
        return len(self.deleted)

    @property
    def room(self) -> int:
        return BLOCK_ROWS - self.rows

    @property
    def content(self) -> Rows:
        return Rows(self.levels, self.scales, self.signs, self.sign_scales, self.keys)

    def append(self, added: Rows) -> None:
        self._reserve(self.rows + len(added.scales))
        place = slice(self.rows, self.rows + len(added.scales))
        self.levels[place], self.scales[place] = added.levels, added.scales
        self.signs[:, place], self.sign_scales[place] = added.signs, added.sign_scales
        self.keys[place] = added.keys
        # The count is updated last, so that other threads do not see unwritten rows.
        self.rows += len(added.scales)

    def _reserve(self, rows: int) -> None:
        capacity = max(self.capacity, MIN_BLOCK_ROWS)
        while capacity < rows:
            capacity *= 2
        if capacity == self.capacity:
            return
        more = capacity - self.capacity
        self.levels = np.concatenate([self.levels, np.empty((more, HALF), np.uint8)])
        self.scales = np.concatenate([self.scales, np.empty(more, np.float32)])
        self.signs = np.hstack([self.signs, np.empty((SIGN_WORDS, more), np.uint64)])
        self.sign_scales = np.concatenate([self.sign_scales, np.empty(more, np.float32)])
        # By default, numpy would convert the keys to this machine's byte order.
        self.keys = np.concatenate([self.keys, np.empty(more, KEYS)], dtype=KEYS)
        self.deleted = np.concatenate([self.deleted, np.zeros(more, np.bool_)])

    def matching(self, keys: "Keys") -> NDArray[np.intp]:
        rows = self.rows
        maybe = np.flatnonzero(np.isin(self.keys["low"][:rows], keys.low) & ~self.deleted[:rows])
        matches = [row for row in maybe.tolist() if self.key(row) in keys.exact]
        return np.array(matches, np.intp)

    def key(self, row: int) -> tuple[int, int, int]:
        key: tuple[int, int, int] = self.keys[row].item()
        return key


class Keys:
    def __init__(self, records: NDArray[np.void]) -> None:
        self.low = records["low"].astype(np.uint64)
        columns = (records[name].tolist() for name in KEYS.names or ())
        self.exact = frozenset(zip(*columns, strict=True))
