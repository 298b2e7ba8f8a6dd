"""Headers of an HTTP request, read once for all checks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

#: All values of each header, by the lower-case name of the header.
HeaderValues: TypeAlias = Mapping[bytes, Sequence[str]]


def strip_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Strip the whitespace around header values, which the HTTP parser does not remove."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def index_headers(headers: Iterable[tuple[bytes, bytes]]) -> HeaderValues:
    """Return the values of each header, one per occurrence."""
    values: dict[bytes, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.decode("latin-1"))
    return values
