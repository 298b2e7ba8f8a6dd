"""JSON value types, and timestamps in RFC 3339 format."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Body = dict[str, Json]


@lru_cache(maxsize=4096)
def rfc3339(at: datetime) -> str:
    """Return a time in RFC 3339 format and UTC.

    The text is cached, because one call formats the same times repeatedly.
    """
    return at.astimezone(UTC).isoformat()


def format_time(at: datetime | None) -> str | None:
    return rfc3339(at) if at else None


def non_empty(**fields: Json) -> Body:
    return {name: value for name, value in fields.items() if value is not None}
