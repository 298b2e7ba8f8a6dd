"""Reading the output of an agent, line by line, by the rules of its adapter."""

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from re import Pattern
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from waybook.json_values import Json
from waybook.work.adapters import Adapter, ReadRule, find
from waybook.work.tasks import MICROS_PER_DOLLAR, Usage

MAX_TEXT_LENGTH: Final = 1024 * 1024
MAX_ERRORS_LENGTH: Final = 8_000
MAX_COUNT: Final = 2**53
_MAX_WAIT: Final = timedelta(days=31)
#: Seconds in the units of phrases such as `2h 5m`.
_SECONDS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


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
        #: Usage of each request, or of all together.
        self._counts: dict[str, Usage] = {}

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
        used = Usage(model=self._model)
        for each in self._counts.values():
            used = used.plus(each)
        return used

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
        if pattern and pattern.search(line):
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
        dollars = _number(next(iter(find(value, rule.cost_dollars)), None))
        # The tolerance keeps a rounding error from becoming a millionth more.
        counts = Usage(tokens[0], tokens[1], math.ceil(dollars * MICROS_PER_DOLLAR - 1e-6))
        if rule.usage == "total":
            self._counts = {"": counts.plus(self._before, -1)}
        else:
            key = first_text(value, rule.usage_key) or f"#{len(self._counts)}"
            self._counts[key] = counts


def texts(value: Json, path: str) -> Iterable[str]:
    return (each for each in find(value, path) if isinstance(each, str) and each)


def first_text(value: Json, path: str | None) -> str | None:
    return next(iter(texts(value, path)), None) if path else None


def _number(value: Json) -> float:
    """Return a reported number, or 0 if the value is not a number or is out of bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if 0 <= value <= MAX_COUNT else 0.0


def reset_time(text: str, patterns: Iterable[Pattern[str]], now: datetime) -> datetime | None:
    """Return when a quota is reset according to an error text, or None if it does not say so.

    `now` must be in the time zone of the agent.
    """
    for pattern in patterns:
        if match := re.search(pattern.pattern, text, re.IGNORECASE):
            groups = {name: each for name, each in match.groupdict().items() if each}
            try:
                reset = _time(groups, now)
            except (ValueError, KeyError, OverflowError, ZoneInfoNotFoundError):
                return None
            return reset.astimezone(UTC) if now <= reset <= now + _MAX_WAIT else None
    return None


def _time(groups: Mapping[str, str], now: datetime) -> datetime:
    if "epoch" in groups:
        return datetime.fromtimestamp(int(groups["epoch"]), UTC)
    if "stamp" in groups:
        at = datetime.fromisoformat(groups["stamp"])
        return at if at.tzinfo else at.replace(tzinfo=now.tzinfo)
    if "delay" in groups:
        parts = re.findall(r"(\d+(?:\.\d+)?)\s*([dhms])", groups["delay"].lower())
        return now + timedelta(seconds=sum(float(n) * _SECONDS[unit] for n, unit in parts))
    here = now.astimezone(ZoneInfo(groups["zone"])) if "zone" in groups else now
    month = groups.get("month", here.strftime("%b"))
    day, year = groups.get("day", here.day), groups.get("year", here.year)
    # A number without minutes and half of the day is not a time.
    minute = groups.get("minute", "0") if "half" in groups else groups["minute"]
    text = f"{month} {day} {year} {groups['hour']}:{minute} {groups.get('half', '')}"
    form = "%b %d %Y %I:%M %p" if "half" in groups else "%b %d %Y %H:%M "
    at = datetime.strptime(text, form).replace(tzinfo=here.tzinfo)
    return at if "month" in groups or at > here else at + timedelta(days=1)
