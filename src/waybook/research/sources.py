"""What makes two sources the same: one page with one title and one quote is one source."""

import json
from hashlib import sha256
from uuid import UUID

#: In an id made of a hash: the version for ids made one's own way, and the usual variant.
_VERSION, _VARIANT = 8 << 76, 2 << 62
_FREE = ~(0xF << 76 | 0x3 << 62)


def source_hash(*, url: str | None, title: str, quote: str | None) -> str:
    """The hash a source is known by. When it was retrieved is no part of it."""
    told = json.dumps([url, title, quote], ensure_ascii=False, separators=(",", ":"))
    return sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def source_id(content_hash: str) -> str:
    """The id of the source with this hash: whoever stores it again meets the same row.

    >>> source_id("0" * 64)
    '00000000-0000-8000-8000-000000000000'
    """
    number = int(content_hash[:32], 16)
    return str(UUID(int=number & _FREE | _VERSION | _VARIANT))
