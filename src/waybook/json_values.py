"""JSON values and timestamps as they travel."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Body = dict[str, Json]


@lru_cache(maxsize=4096)
def rfc3339(at: datetime) -> str:
    """A time in RFC 3339, in UTC. Kept: a call writes the same moment many times over."""
    return at.astimezone(UTC).isoformat()
