"""Ids: UUIDv7, so that rows made together lie together."""

import os
import time
from re import IGNORECASE
from re import compile as pattern

_ID = pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", IGNORECASE)


def new_id() -> str:
    """A fresh id, later ones sorting after earlier ones by the millisecond."""
    millis = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (millis & (1 << 48) - 1) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    digits = f"{value:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def is_id(text: str) -> bool:
    """Whether this could be one of our ids at all."""
    return _ID.fullmatch(text) is not None
