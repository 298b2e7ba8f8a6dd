"""Finds dependencies in a text, such as “(after 2)” or “depends on #3 and #4”."""

import re
from typing import Final

_NUMBER: Final = r"(?:steps?\s+|tasks?\s+|items?\s+)?#?\d{1,6}(?:\.\d{1,6})*"
_LIST: Final = rf"{_NUMBER}(?:\s*(?:,\s*and|,|&|and)\s*{_NUMBER})*"
#: A reference must have `#`, so that “needs 2 days” is not taken for one.
_HASHED_LIST: Final = rf"(?:steps?\s+|tasks?\s+|items?\s+)?(?=#){_LIST}"
_VERB: Final = r"depends\s+on|depend\s+on|blocked\s+by|requires|needs"
#: The places in a line where references to other items are recognized.
_PATTERNS: Final = (
    re.compile(rf"\s*[(\[](?:after|{_VERB}):?\s+(?P<list>{_LIST})\s*[)\]]", re.IGNORECASE),
    re.compile(rf"\s*[;,—-]\s*(?:after|{_VERB}):?\s+(?P<list>{_LIST})\s*\.?\s*$", re.IGNORECASE),
    re.compile(rf"(?:^|\s)(?:{_VERB}):?\s+(?P<list>{_HASHED_LIST})\.?", re.IGNORECASE),
)
_KEY: Final = re.compile(r"#?\d{1,6}(?:\.\d{1,6})*")


def take_references(line: str) -> tuple[str, list[str]]:
    """Remove references to other tasks from a line. Return the line and the referenced keys.

    >>> take_references("Write it (after 2 and #3)")
    ('Write it', ['2', '#3'])
    >>> take_references("Wait (after 2 days)")
    ('Wait (after 2 days)', [])
    >>> take_references("Draft; after 1, 2")
    ('Draft', ['1', '2'])
    """
    keys: list[str] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(line):
            keys += _KEY.findall(match["list"])
        line = pattern.sub("", line)
    return line.strip(), keys
