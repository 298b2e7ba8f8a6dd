"""Headers of an HTTP request, read once for all checks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

HeaderValues: TypeAlias = Mapping[bytes, Sequence[str]]


def strip_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Strip the whitespace around header values, which the HTTP parser keeps."""
    return [(name, value.strip(b" \t")) for name, value in headers]


def index_headers(headers: Iterable[tuple[bytes, bytes]]) -> HeaderValues:
    values: dict[bytes, list[str]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(value.decode("latin-1"))
    return values


def declared_size(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the size of the body that the headers declare, or None if they do not.

    >>> declared_size([(b"content-length", b"12")]), declared_size([(b"content-length", b"?")])
    (12, None)
    """
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else None
    return None
