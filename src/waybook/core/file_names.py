"""Creates file names that are safe on any operating system."""

import re
from typing import Final

MAX_NAME_LENGTH: Final = 80
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]+")


def safe_file_name(name: str) -> str:
    """Replace or remove the characters that are not safe in file names.

    >>> safe_file_name("../a b"), safe_file_name("gpt-4.1"), safe_file_name("…")
    ('a-b', 'gpt-4.1', 'document')
    """
    return _UNUSUAL.sub("-", name).strip("-.")[:MAX_NAME_LENGTH] or "document"


def unique_name(name: str, taken: set[str]) -> str:
    """Return the file name, with a number added if the name is taken in any letter case."""
    own, number = name, 1
    while own.lower() in taken:
        number += 1
        own = f"{name}-{number}"
    taken.add(own.lower())
    return own
