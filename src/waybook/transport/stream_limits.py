"""Whoever listens to changes: so many in a process, and so many of these of one org.

Each costs little, but not nothing; and without the second number one org could take every place.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

from waybook.errors import RateLimited, Unavailable, WaybookError

#: When it is worth to try again; streams are long.
RETRY_SECONDS: Final = 30


class StreamLimiter:
    """The streams that are open in this process."""

    def __init__(self, most: int, most_of_org: int) -> None:
        """At most so many altogether, and so many of one org."""
        self._most, self._most_of_org = most, most_of_org
        self._open: Counter[UUID] = Counter()

    def limit_error(self, org_id: UUID) -> WaybookError | None:
        """What stands in the way of one more of this org, if something does."""
        if self._open[org_id] >= self._most_of_org:
            return RateLimited(
                f"your org is listening to changes {self._most_of_org} times already, which is the "
                "most there may be here; end one, or try again later",
                retryAfter=RETRY_SECONDS,
            )
        if self._open.total() >= self._most:
            return Unavailable(
                "too many are listening to changes here; try again later", retryAfter=RETRY_SECONDS
            )
        return None

    @contextmanager
    def acquire(self, org_id: UUID) -> Iterator[None]:
        """Count somebody while inside."""
        self._open[org_id] += 1
        try:
            yield
        finally:
            self._open[org_id] -= 1
            if not self._open[org_id]:
                del self._open[org_id]
