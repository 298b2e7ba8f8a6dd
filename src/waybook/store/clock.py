"""The database's clock, between two looks at it."""

import time
from datetime import datetime, timedelta


class Clock:
    """What time it is at the database, as far as can be told from the last answer.

    It lags by the way the answer took. Whoever relies on it has the database confirm it.
    """

    def __init__(self) -> None:
        self._told: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        """The database has just said what time it is."""
        self._told = now, time.monotonic()

    def now(self) -> datetime | None:
        """The time by now; none if the database has not said a word yet."""
        if self._told is None:
            return None
        then, heard = self._told
        return then + timedelta(seconds=time.monotonic() - heard)
