"""Symbol and icon of each status."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class StatusSymbol:
    symbol: str
    label: str
    #: SVG path of the icon, about ten pixels wide.
    icon: str


_CIRCLE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"

# fmt: off
STATUS_SYMBOLS: Mapping[str, StatusSymbol] = MappingProxyType({
    "completed":      StatusSymbol("✓", "completed",      "m-5 0l3.5 4 6.5-8"),
    "skipped":        StatusSymbol("»", "skipped",        "m-5-4l4 4-4 4m5-8l4 4-4 4"),
    "failed":         StatusSymbol("✗", "failed",         "m-4-4l8 8m0-8l-8 8"),
    "canceled":      StatusSymbol("⊘", "canceled",      _CIRCLE + "m1 3l6-6"),
    "awaiting_input": StatusSymbol("!", "awaiting input", "m0-5v6m0 4v.1"),
    "stalled":        StatusSymbol("▲", "stalled",        "m0-5l5.5 10h-11z"),
    "in_progress":    StatusSymbol("◐", "in progress",    "m-3-5l8 5-8 5z"),
    "pending":        StatusSymbol("·", "pending",        _CIRCLE),
    "not_started":    StatusSymbol("·", "not started",    _CIRCLE),
    "planning":       StatusSymbol("·", "planning",       _CIRCLE),
    "executing":      StatusSymbol("◐", "executing",      "m-3-5l8 5-8 5z"),
    "awaiting_review": StatusSymbol("!", "awaiting review", "m0-5v6m0 4v.1"),
    "awaiting_feedback": StatusSymbol("!", "awaiting feedback", "m0-5v6m0 4v.1"),
    "unknown":        StatusSymbol("?", "unknown",        "m-3-3a3 3 0 1 1 3 4v1m0 3v.1"),
    "bare":           StatusSymbol("",  "",               ""),
})
# fmt: on
