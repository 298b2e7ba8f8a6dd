"""Ranks vectors by cosine similarity.

Import this module only when it is needed, because loading numpy takes time.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from waybook.research.embedding import DIMENSIONS, SCALE
from waybook.research.fusion import RankedPassage

_KEY: Final = [("high", ">u8"), ("low", ">u8"), ("part", ">i4")]
_KEYS: Final = np.dtype(_KEY)
_RECORDS: Final = np.dtype([*_KEY, ("vector", "<i2", (DIMENSIONS,))])
_MIN_CAPACITY = 16
#: Rows are ranked in chunks of this many, because a chunk fits into the cache of a processor core.
_CHUNK_ROWS = 512
#: If a larger share of the rows is marked as deleted, the other rows are copied to a new array.
_MAX_DELETED_SHARE = 0.25

_Records = NDArray[np.void]
_Flags = NDArray[np.bool_]


class VectorIndex:
    """Vectors of passages with their keys. One thread may change the index while others search."""

    def __init__(self, blob: bytes = b"") -> None:
        self._records: _Records = np.empty(0, _RECORDS)
        self._deleted: _Flags = np.zeros(0, np.bool_)
        #: The rows in use and their deletion flags. Both are replaced in one assignment, so that a
        #: search in another thread sees rows and flags that belong together.
        self._used = self._records, self._deleted
        self.extend(blob)

    def __len__(self) -> int:
        _, deleted = self._used
        return len(deleted) - int(deleted.sum())

    @property
    def size_bytes(self) -> int:
        return self._records.nbytes + self._deleted.nbytes

    def extend(self, blob: bytes) -> None:
        self._append(np.frombuffer(blob, _RECORDS))

    def change(self, added: bytes, deleted: bytes) -> None:
        """Remove the vectors with the keys in `deleted`, then add those in `added` that are new."""
        records, flags = self._used
        flags[self._find(np.frombuffer(deleted, _KEYS))] = True
        if flags.sum() > _MAX_DELETED_SHARE * len(flags):
            self._used = self._records, self._deleted = records[~flags], np.zeros(len(self), "?")
        new = np.frombuffer(added, _RECORDS)
        known = {*_keys(self._used[0][self._find(new)])}
        self._append(new[[key not in known for key in _keys(new)]])

    def nearest(self, query: Sequence[float], most: int) -> list[RankedPassage]:
        return _rank(*self._used, query, most)

    def _append(self, added: _Records) -> None:
        start = len(self._used[0])
        end = start + len(added)
        if end > len(self._records):
            more = max(end + end // 4, _MIN_CAPACITY) - start
            # By default, numpy would convert the keys to this machine's byte order.
            self._records = np.concatenate(
                [self._used[0], np.empty(more, _RECORDS)], dtype=_RECORDS
            )
            self._deleted = np.concatenate([self._used[1], np.zeros(more, np.bool_)])
        self._records[start:end] = added
        self._used = self._records[:end], self._deleted[:end]

    def _find(self, wanted: _Records) -> list[int]:
        """Return the numbers of the rows that have the keys of these records."""
        records, deleted = self._used
        keys = {*_keys(wanted)}
        maybe = np.flatnonzero(np.isin(records["low"], wanted["low"].astype("u8")) & ~deleted)
        found = zip(maybe.tolist(), _keys(records[maybe]), strict=True)
        return [row for row, key in found if key in keys]


def rank_exactly(blob: bytes, query: Sequence[float], most: int) -> list[RankedPassage]:
    """Rank records by their cosine similarity to the query, best first."""
    records = np.frombuffer(blob, _RECORDS)
    return _rank(records, np.zeros(len(records), np.bool_), query, most)


def _rank(
    records: _Records, deleted: _Flags, query: Sequence[float], most: int
) -> list[RankedPassage]:
    if not len(records):
        return []
    vector, vectors = np.array(query, np.float32) / np.float32(SCALE), records["vector"]
    cosines = np.empty(len(records), np.float32)
    floats = np.empty((_CHUNK_ROWS, DIMENSIONS), np.float32)
    for start in range(0, len(records), _CHUNK_ROWS):
        chunk = vectors[start : start + _CHUNK_ROWS]
        floats[: len(chunk)] = chunk
        np.dot(floats[: len(chunk)], vector, out=cosines[start : start + len(chunk)])
    # Round the similarities: their last digits depend on the row number, but equal vectors must get
    # equal similarities.
    cosines = cosines.round(6)
    cosines[deleted] = -np.inf
    place = min(most, len(cosines))
    bound = max(np.partition(cosines, -place)[-place], np.float32(-DIMENSIONS))
    best = np.flatnonzero(cosines >= bound)
    keys = records[best]
    order = np.lexsort((keys["part"], keys["low"], keys["high"], -cosines[best]))[:most]
    return [
        RankedPassage(subject_id=str(UUID(int=high << 64 | low)), part=part, measure=cosine)
        for (high, low, part), cosine in zip(
            _keys(keys[order]), cosines[best[order]].tolist(), strict=True
        )
    ]


def _keys(records: _Records) -> list[tuple[int, int, int]]:
    columns = (records[name].tolist() for name in _KEYS.names or ())
    return [*zip(*columns, strict=True)]
