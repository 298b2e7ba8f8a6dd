"""Reading the output of an agent, line by line, by the rules of its adapter."""

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from waybook.json_values import Json
from waybook.work.adapters import Adapter, ReadRule, find
from waybook.work.tasks import Usage

MAX_TEXT_LENGTH: Final = 1024 * 1024
MAX_ERRORS_LENGTH: Final = 8_000
MAX_COUNT: Final = 2**53
MICROS_PER_DOLLAR: Final = 1_000_000


class Tail:
    """Last pieces of a text, up to a length."""

    def __init__(self, max_length: int) -> None:
        self._pieces: deque[str] = deque()
        self._max_length = max_length
        self._length = 0

    def add(self, piece: str) -> None:
        piece = piece[-self._max_length :]
        self._pieces.append(piece)
        self._length += len(piece)
        while self._length > self._max_length:
            self._length -= len(self._pieces.popleft())

    def clear(self) -> None:
        self._pieces.clear()
        self._length = 0

    def __str__(self) -> str:
        return "".join(self._pieces)


class OutputReader:
    """Output of an agent so far, as text, result, usage and errors."""

    def __init__(self, adapter: Adapter, before: Usage) -> None:
        """Prepare to read. `before` is the usage of earlier runs of the same conversation."""
        self._adapter = adapter
        self._before = before if adapter.usage_of_conversation else Usage()
        self.conversation: str | None = None
        self._text = Tail(MAX_TEXT_LENGTH)
        self.result: Json = None
        #: Whether the agent itself reported that it failed.
        self.has_failed = False
        self._reported = Tail(MAX_ERRORS_LENGTH)
        self._stderr = Tail(MAX_ERRORS_LENGTH)
        self.resets: Json = None
        #: Reason for which the agent tries again; None as soon as it makes progress.
        self.retrying: str | None = None
        self._is_in_pieces = False
        self._model: str | None = None
        self._requests: dict[str, tuple[int, int, float | None]] = {}
        self._total: tuple[int, int, float | None] | None = None

    @property
    def text(self) -> str:
        """Return the last message of the agent."""
        return str(self._text).strip()

    @property
    def errors(self) -> str:
        """Return the errors that the agent reported, or else the end of its standard error."""
        return (str(self._reported) or str(self._stderr)).strip()

    @property
    def all_errors(self) -> str:
        return f"{self._reported} {self._stderr}"

    @property
    def usage(self) -> Usage:
        """Return the usage of this run."""
        counts = [self._total] if self._total else [*self._requests.values()]
        if not counts:
            return Usage(model=self._model)
        costs = [cost for _, _, cost in counts if cost is not None]
        # The tolerance keeps a rounding error from becoming a cent more.
        cost = math.ceil(sum(costs) * MICROS_PER_DOLLAR - 1e-6) if costs else None
        used = Usage(sum(each[0] for each in counts), sum(each[1] for each in counts), cost)
        if self._total:
            used = used.minus(self._before)
        return used._replace(model=self._model)

    def read(self, line: str) -> list[str]:
        """Read a line of standard output; return lines for people."""
        if self._adapter.output == "text":
            self._text.add(f"{line}\n")
            return [line]
        try:
            value: Json = json.loads(line)
        except (ValueError, RecursionError):
            return [line]
        if not isinstance(value, dict):
            return [line]
        rules = [rule for rule in self._adapter.read if rule.applies(value)]
        if not any(rule.retry for rule in rules):
            self.retrying = None
        return [shown for rule in rules for shown in self._apply(rule, value)]

    def read_error(self, line: str) -> list[str]:
        """Read a line of standard error; return lines for people."""
        self._stderr.add(f"{line}\n")
        pattern = self._adapter.stderr_retry
        if pattern and re.search(pattern, line):
            self.retrying = line
        return [line]

    def _apply(self, rule: ReadRule, value: Json) -> list[str]:
        self.conversation = first_text(value, rule.conversation) or self.conversation
        self._model = first_text(value, rule.model) or self._model
        self._read_text(rule, value)
        if rule.result and (results := find(value, rule.result)):
            self.result = results[0]
        if rule.resets:
            self.resets = next(iter(find(value, rule.resets)), None)
        errors = [text for path in rule.error for text in texts(value, path)]
        self.has_failed = self.has_failed or bool(rule.error)
        if rule.retry:
            self.retrying = first_text(value, rule.retry) or "unknown"
            errors.append(self.retrying)
        for error in errors:
            self._reported.add(f"{error}\n")
        if rule.usage:
            self._count(rule, value)
        shown = [text for path in rule.shown for text in texts(value, path)]
        return [line for text in [*shown, *errors] for line in text.splitlines()]

    def _read_text(self, rule: ReadRule, value: Json) -> None:
        text, piece = first_text(value, rule.text), first_text(value, rule.text_piece)
        if text is not None or rule.ends_text:
            self._is_in_pieces = False
        if text is not None or (piece is not None and not self._is_in_pieces):
            self._text.clear()
        self._text.add(text or piece or "")
        self._is_in_pieces = self._is_in_pieces or piece is not None

    def _count(self, rule: ReadRule, value: Json) -> None:
        tokens = [
            int(sum(_number(each) for path in paths for each in find(value, path)))
            for paths in (rule.input_tokens, rule.output_tokens)
        ]
        cost = None
        if rule.cost_dollars and (costs := find(value, rule.cost_dollars)):
            cost = _number(costs[0])
        counts = (tokens[0], tokens[1], cost)
        if rule.usage == "total":
            self._total = counts
        else:
            key = first_text(value, rule.usage_key) or f"#{len(self._requests)}"
            self._requests[key] = counts


def texts(value: Json, path: str) -> Iterable[str]:
    return (each for each in find(value, path) if isinstance(each, str) and each)


def first_text(value: Json, path: str | None) -> str | None:
    return next(iter(texts(value, path)), None) if path else None


def _number(value: Json) -> float:
    """Return a reported number, or 0 if the value is not a number or is out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= MAX_COUNT else 0.0


#: Seconds in the units of phrases such as `2h 5m`.
_UNITS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DELAY = re.compile(
    r"\b(?:in|after|retry-after:?)\s+((?:\d+(?:\.\d+)?\s*(?:d|h|m|s)[a-z]*[\s,]*)+)", re.IGNORECASE
)
_EPOCH = re.compile(r"\b(1[6-9]\d{8}|[2-3]\d{9})\b")
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_CLOCK = re.compile(
    r"\b(?:at|resets|until)\s+(?:(?P<month>[A-Z][a-z]{2})[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:, (?P<year>\d{4}))?,?\s+(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]m)?\b(?:\s*\((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
MAX_WAIT: Final = timedelta(days=31)


def reset_time(text: str, now: datetime) -> datetime | None:
    """Return when a quota is reset according to an error text, or None if it does not say so.

    `now` must be in the time zone of the agent.

    >>> now = datetime(2026, 11, 19, 20, 22, tzinfo=UTC)
    >>> reset_time("limit reached|1795123372", now).isoformat()
    '2026-11-19T21:22:52+00:00'
    >>> [reset_time(text, now).strftime("%d %H:%M") for text in ("Please retry in 1h 2m.",
    ...     "try again at 9:22 PM.", "resets 3am (Europe/Berlin)", "at Nov 21st, 2026 1:05 AM")]
    ['19 21:24', '19 21:22', '20 02:00', '21 01:05']
    >>> reset_time("rate limit", now)
    """
    reset: datetime | None = None
    if match := _EPOCH.search(text):
        reset = datetime.fromtimestamp(int(match[1]), UTC)
    elif match := _STAMP.search(text):
        reset = _parsed(match[0], now)
    elif match := _DELAY.search(text):
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([dhms])", match[1].lower())
        seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
        reset = now + timedelta(seconds=min(seconds, MAX_WAIT.total_seconds()))
    elif match := _CLOCK.search(text):
        reset = _next_time(match, now)
    if reset is None or not now <= reset <= now + MAX_WAIT:
        return None
    return reset.astimezone(UTC)


def _parsed(text: str, now: datetime) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=now.tzinfo)


def _next_time(match: "re.Match[str]", now: datetime) -> datetime | None:
    """Return the next time at which a clock shows this, on the given day if there is one."""
    if match["minute"] is None and match["half"] is None:
        return None
    try:
        here = now.astimezone(ZoneInfo(match["zone"])) if match["zone"] else now
        hour = int(match["hour"])
        if match["half"]:
            hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
        at = here.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
        if match["month"] is None:
            return at if at > here else at + timedelta(days=1)
        month = _MONTHS.index(match["month"].lower()) + 1
        return at.replace(year=int(match["year"] or here.year), month=month, day=int(match["day"]))
    except (ValueError, ZoneInfoNotFoundError):
        return None
