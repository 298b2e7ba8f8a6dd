"""Limits on open change streams, per process and per org."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from waybook.errors import RateLimited, Unavailable, WaybookError

#: Seconds after which a refused client should try again.
_RETRY_SECONDS: Final = 30


class StreamLimiter:
    def __init__(self, most: int, most_of_org: int) -> None:
        self._most, self._most_of_org = most, most_of_org
        self._open: Counter[UUID] = Counter()

    def limit_error(self, org_id: UUID) -> WaybookError | None:
        if self._open[org_id] >= self._most_of_org:
            return RateLimited(
                f"your org already has {self._most_of_org} streams of changes open, which is the "
                "limit; close one, or try again later",
                retryAfter=_RETRY_SECONDS,
            )
        if self._open.total() >= self._most:
            return Unavailable(
                "too many streams of changes are open; try again later", retryAfter=_RETRY_SECONDS
            )
        return None

    @contextmanager
    def acquire(self, org_id: UUID) -> Iterator[None]:
        self._open[org_id] += 1
        try:
            yield
        finally:
            self._open[org_id] -= 1
            if not self._open[org_id]:
                del self._open[org_id]
