"""UUIDv7 ids, which keep rows created together close together in an index."""

import os
import time
from re import IGNORECASE
from re import compile as pattern

_ID = pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", IGNORECASE)
#: Sorts after every id.
LAST_ID = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def new_id() -> str:
    """Return a new id; ids sort by creation time to the millisecond."""
    time_part = f"{time.time_ns() // 1_000_000:012x}"
    chance = os.urandom(10).hex()
    variant = "89ab"[int(chance[0], 16) & 3]
    return f"{time_part[:8]}-{time_part[8:]}-7{chance[1:4]}-{variant}{chance[4:7]}-{chance[7:19]}"


def is_id(text: str) -> bool:
    """Return whether the text has the form of an id."""
    return _ID.fullmatch(text) is not None
