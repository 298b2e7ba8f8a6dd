"""Normalization of recordings: placeholders replace values that differ between recordings."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from waybook.core.ids import ALPHABET, LENGTH, is_id

#: JSON value of any type.
Value: TypeAlias = Any

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{11,12}"
TIME = (
    r"20\d\d-\d\d-\d\d[T ]\d\d(?::|%3A)\d\d(?:(?::|%3A)\d\d(?:\.\d+)?)?"
    r"(?:Z|(?:[+-]|%2B)\d\d(?:(?::|%3A)?\d\d)?)?"
)
#: Versions of MCP. They look like dates, but are the same in every recording, so they are kept.
PROTOCOLS = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"})
#: Pattern for the year in a timestamp of a running server. Dates in the scenario have other years.
YEAR = re.compile(r"20(?:2[5-9]|[34]\d)")
VOLATILE = re.compile(
    rf"(?P<id>{ID})"
    rf"|(?P<short>(?<![0-9A-Za-z])[{ALPHABET}]{{{LENGTH}}}(?![0-9A-Za-z]))"
    rf"|(?P<time>{TIME})"
    r"|(?P<date>20\d\d-\d\d-\d\d)(?!\d)"
    r"|(?P<asset>(?<=/static/)[0-9a-f]{12}(?=/))"
    r"|(?P<expiry>(?<=expires=)[A-Z][a-z]{2}, [^;]+ GMT)"
    r"|(?P<form>(?<=input token=)[\w=-]+)"
    r"|(?P<secret>\bwbk?_[0-9A-Za-z_-]{16,})"
    r"|(?P<hash>(?<![0-9A-Za-z])(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32}|[0-9a-f]{16})(?![0-9A-Za-z]))"
)
#: Pattern for values in pages and terminal output that differ between recordings.
HUMAN_READABLE = re.compile(
    r"(?P<month>\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*(?: 20\d\d)?)"
    r"|(?P<ago>just now|(?<![\w.])\d+(?:\.\d+)? ?(?:s|m|h|min|minutes?|seconds?|hours?) ago)"
    r"|(?P<live>(?<=data-at=\")[0-9a-f]+\.\d+)"
    r"|(?P<key>(?<=name=\"key\" value=\")[^\"]+)"
    r"|(?P<bar>(?<=<rect )x=\"[\d.]+\" width=\"[\d.]+\"(?= height=\"10\"))"
    r"|(?P<clock>(?<![\d:])\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?![\d:]))"
    r"|(?P<prefix>(?<![0-9A-Za-z<-])01[0-9a-f]{6}(?:-[0-9a-f]{0,4})?(?![0-9A-Za-z-]))"
    r"|(?P<duration>(?<![\w.])\d+(?:\.\d+)? ?(?:ms|s|sec|seconds?|min|minutes?)\b)"
)
#: Names of fields that contain measurements.
MEASURED = re.compile(
    r"(?:seconds|elapsed|duration|latency|millis|Ms|_ms|bytesFree|pid|size_bytes)$"
)
CURSORS = frozenset({"cursor", "nextCursor"})
#: Names of fields that contain a message for a reader.
PROSE = frozenset({"message", "why"})


class Normalizer:
    """Normalizer that replaces values that differ between recordings by numbered placeholders.

    The numbers follow the order of first appearance, and equal values get the same placeholder.
    """

    def __init__(self, literals: Mapping[str, str], earlier: "Normalizer | None" = None) -> None:
        """Create a normalizer that replaces `literals` and reuses the placeholders of `earlier`."""
        self.literals = sorted(literals.items(), key=lambda item: -len(item[0]))
        self.numbers: dict[tuple[str, str], str] = dict(earlier.numbers) if earlier else {}
        self.counts: dict[str, int] = {}
        self.mark = "t" if earlier else ""

    def number(self, kind: str, value: str) -> str:
        """Return the placeholder of a value, with its number."""
        if (kind, value) not in self.numbers:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.numbers[kind, value] = f"<{kind}:{self.mark}{self.counts[kind]}>"
        return self.numbers[kind, value]

    def text(self, text: str, *, human_readable: bool = False) -> str:
        """Return a text with placeholders; `human_readable` also replaces dates in words."""
        for literal, placeholder in self.literals:
            text = text.replace(literal, placeholder)
        text = VOLATILE.sub(self._replaced, text)
        return (
            HUMAN_READABLE.sub(lambda match: f"<{match.lastgroup}>", text)
            if human_readable
            else text
        )

    def value(self, value: Value, key: str = "") -> Value:
        """Return JSON with placeholders in keys and values."""
        if isinstance(value, dict):
            return {self.text(name): self.value(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, key) for inner in value]
        if isinstance(value, str):
            return self.number("cursor", value) if key in CURSORS and value else self.text(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and MEASURED.search(key):
            return "<measured>"
        return value

    def _replaced(self, match: re.Match[str]) -> str:
        kind, value = str(match.lastgroup), match[0]
        if kind == "short" and not is_id(value):
            return value
        if kind in {"time", "date"} and (value in PROTOCOLS or not YEAR.match(value)):
            return value
        if kind == "time":
            # Placeholders for times have no number, because two calls may have the same time in one
            # recording and not in another. Only the form of the time zone is kept.
            zone = re.search(r"(?:Z|(?:[+-]|%2B)\d\d(?:(?::|%3A)?\d\d)?)$", value[11:])
            return f"<time{zone[0] if zone else ''}>"
        if kind in {"date", "asset", "expiry"}:
            return f"<{kind}>"
        return self.number(kind, value)


def without_prose(value: Value, keys: frozenset[str] = PROSE) -> tuple[Value, list[list[str]]]:
    """Replace the texts of these fields by `<prose>`; return the new value, and paths and texts."""
    prose: list[list[str]] = []

    def visit(inner: Value, path: str, key: str) -> Value:
        if isinstance(inner, dict):
            return {name: visit(child, f"{path}.{name}", name) for name, child in inner.items()}
        if isinstance(inner, list):
            return [visit(child, f"{path}[{n}]", key) for n, child in enumerate(inner)]
        if isinstance(inner, str) and key in keys:
            prose.append([path.lstrip("."), inner])
            return "<prose>"
        return inner

    return visit(value, "", ""), prose
