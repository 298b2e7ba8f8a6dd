"""Splits texts into passages for search, and identifies sources by hashes.

Two sources with the same URL, title and quote are the same source.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from uuid import UUID

MAX_PASSAGE_LENGTH = 1_000
MAX_PASSAGES = 100
MAX_DEPTH = 12

_ENDS = ("\n\n", "\n", ". ", "! ", "? ", "; ", ", ", " ")


def passages(text: str) -> tuple[str, ...]:
    """Split a text into passages of at most 1,000 characters.

    The best place for a split is between two paragraphs, else between two sentences.

    >>> passages("One thing.  ")
    ('One thing.',)
    """
    return tuple(islice(_cut(text), MAX_PASSAGES))


def _cut(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = _end(text, start)
        piece = text[start:end].strip()
        if piece:
            yield piece
        start = end


def _end(text: str, start: int) -> int:
    latest = start + MAX_PASSAGE_LENGTH
    if latest >= len(text):
        return len(text)
    for mark in _ENDS:
        place = text.rfind(mark, start + MAX_PASSAGE_LENGTH // 2, latest)
        if place >= 0:
            return place + len(mark)
    return latest


def json_to_text(content: object) -> str:
    r"""Return a JSON value as readable text. An object becomes one value per line.

    >>> json_to_text({"finding": "It rains.", "sources": [1, 2]})
    'finding: It rains.\nsources: 1\nsources: 2'
    """
    if isinstance(content, str):
        return content
    return "\n".join(_lines(content, "", 0))


def _lines(value: object, name: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH or value is None:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, str(key), depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name, depth + 1)
    else:
        yield f"{name}: {value}" if name else str(value)


#: Bits that make a hash a valid UUID, as in RFC 9562.
_VERSION, _VARIANT = 8 << 76, 2 << 62
_FREE = ~(0xF << 76 | 0x3 << 62)


def source_hash(*, url: str | None, title: str, quote: str | None) -> str:
    """Return the SHA-256 hash of URL, title and quote, which identifies a source."""
    serialized = json.dumps([url, title, quote], ensure_ascii=False, separators=(",", ":"))
    return sha256(serialized.encode("utf-8", "surrogatepass")).hexdigest()


def source_id(content_hash: str) -> str:
    """Return the id for a source with this hash, so that the same source is stored only once.

    >>> source_id("0" * 64)
    '00000000-0000-8000-8000-000000000000'
    """
    number = int(content_hash[:32], 16)
    return str(UUID(int=number & _FREE | _VERSION | _VARIANT))
