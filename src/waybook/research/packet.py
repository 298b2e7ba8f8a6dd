"""Builds contexts for agents within a size limit.

Short parts stay complete, long texts are cut, and long lists keep the most relevant entries. The
field `cut` says what was left out, and which call returns it.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import orjson

from waybook.json_values import Json

_SpaceClaim: TypeAlias = tuple[int, int, int]


def json_size(value: Json) -> int:
    return len(orjson.dumps(value))


def as_text(value: Json) -> str:
    """Return a string unchanged, and any other value as compact JSON text.

    >>> as_text("It rains."), as_text({"river": "Nile"})
    ('It rains.', '{"river":"Nile"}')
    """
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def escaped_size(text: str) -> int:
    r"""Return the number of bytes that a text takes as JSON, without the quotes.

    >>> escaped_size("abc"), escaped_size("a\n"), escaped_size("☃")
    (3, 3, 3)
    """
    return len(orjson.dumps(text)) - 2


def truncate(text: str, most: int) -> str:
    """Return the longest prefix of a text that takes at most `most` bytes as JSON.

    >>> truncate("a☃b", 4), truncate("abc", 9)
    ('a☃', 'abc')
    """
    if len(text) <= most and escaped_size(text) <= most:
        return text
    lengths = range(1, min(len(text), max(0, most)) + 1)
    return text[: bisect_right(lengths, most, key=lambda length: escaped_size(text[:length]))]


def fair_share(lengths: list[int], budget: int) -> int:
    """Return the length to which items must be cut so that all of them fit in the budget.

    >>> fair_share([10, 100, 100], 110)
    50
    """
    left, heads = budget, len(lengths)
    for length in sorted(lengths):
        if length * heads > left:
            return left // heads
        left, heads = left - length, heads - 1
    return budget


def allocate_space(claims: Sequence[_SpaceClaim], room: int) -> list[int]:
    """Divide space between items by weight, within each item's minimum and maximum size.

    >>> allocate_space([(10, 5, 1), (100, 5, 1), (100, 5, 2)], 100)
    [10, 30, 60]
    """

    def at_level(level: int) -> list[int]:
        return [min(most, max(floor, level * counts)) for most, floor, counts in claims]

    levels = range(1, max(0, room) + 1)
    return at_level(bisect_right(levels, room, key=lambda level: sum(at_level(level))))


Body: TypeAlias = dict[str, Json]

#: Minimum number of bytes that remain of a text that is cut.
MIN_TEXT_BYTES = 240
CUT_OVERHEAD = 9
MORE = "more"


@dataclass(frozen=True, slots=True)
class FetchCall:
    tool: str
    args: Body

    def to_json(self, left: Json, **more: Json) -> Body:
        get: Body = {"tool": self.tool, "args": {**self.args, **more}, "why": "Read the rest."}
        return {"left": left, "get": get}


@dataclass(frozen=True, kw_only=True)
class TextField:
    """A field that may be cut: a string, or another value as JSON text."""

    name: str
    value: Json
    get: FetchCall
    length: int | None = None
    resumes: bool = True
    counts: int = 1

    @cached_property
    def text(self) -> str:
        return as_text(self.value)

    @cached_property
    def most(self) -> int:
        full_size = json_size({self.name: self.value}) - 1
        return full_size if self._complete else full_size + self._note

    @cached_property
    def floor(self) -> int:
        return min(self.most, len(self.name) + 6 + MIN_TEXT_BYTES + self._note)

    @cached_property
    def _complete(self) -> bool:
        return self.length is None or self.length <= len(self.text)

    @cached_property
    def _note(self) -> int:
        long = self.length or len(self.text)
        return json_size({self.name: self.get.to_json(long, offset=long)}) - 1

    def fitted(self, room: int) -> tuple[Json, Body | None]:
        """Return the value, cut to `room` bytes if it is longer, and a note on what is missing."""
        if self._complete and self.most <= room:
            return self.value, None
        shown = truncate(self.text, room - len(self.name) - 6 - self._note)
        left = (self.length or len(self.text)) - len(shown)
        resumed: Body = {"offset": len(shown)} if self.resumes else {}
        return shown, self.get.to_json(left, **resumed)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A part of a context: fields that are always complete, and texts that may be cut."""

    frame: Body
    texts: tuple[TextField, ...] = ()
    several: bool = False

    @cached_property
    def max_size(self) -> int:
        return self._frame + sum(text.most for text in self.texts)

    @cached_property
    def min_size(self) -> int:
        return self._frame + sum(text.floor for text in self.texts)

    @cached_property
    def _frame(self) -> int:
        return json_size(self.frame) + 1 + CUT_OVERHEAD

    def fit(self, room: int) -> Body:
        claims = [(text.most, text.floor, text.counts) for text in self.texts]
        allotted = allocate_space(claims, room - self._frame)
        body, cut = dict(self.frame), Body()
        for text, share in zip(self.texts, allotted, strict=True):
            body[text.name], note = text.fitted(share)
            if note is not None:
                cut[text.name] = note
        if cut:
            body["cut"] = cut if self.several else next(iter(cut.values()))
        return body


@dataclass(frozen=True, kw_only=True)
class SingleEntry:
    name: str
    entry: Entry
    counts: int = 1

    @cached_property
    def most(self) -> int:
        return len(self.name) + 4 + self.entry.max_size

    @cached_property
    def floor(self) -> int:
        return len(self.name) + 4 + self.entry.min_size

    def fitted(self, room: int) -> tuple[Json, Body | None]:
        return self.entry.fit(room - len(self.name) - 4), None


@dataclass(frozen=True, kw_only=True)
class EntryList:
    """A list of entries. If not all fit, those nearest to the index `focus` are kept."""

    name: str
    entries: tuple[Entry, ...]
    get: FetchCall
    beyond: int = 0
    #: Function that takes the index of an entry, and returns the arguments of a call that continues
    #: the list at this entry.
    resume: Callable[[int], Body] = field(default=lambda _: {})
    focus: int = 0
    counts: int = 1

    @cached_property
    def most(self) -> int:
        full_size = sum(entry.max_size for entry in self.entries)
        return full_size + self._note if self.beyond else full_size

    @cached_property
    def floor(self) -> int:
        return min(self.most, self._note)

    @cached_property
    def empty(self) -> int:
        return len(self.name) + 6

    @cached_property
    def _note(self) -> int:
        every = len(self.entries)
        left = every + self.beyond
        ends = (json_size(self.get.to_json(left, **self.resume(place))) for place in (0, every))
        return len(self.name) + 4 + max(ends)

    def fitted(self, room: int) -> tuple[Json, Body | None]:
        """Return the entries that fit in `room` bytes, and a note about the others.

        At least one entry is returned if possible, so that paging always advances.
        """
        shown = self._shown(room)
        entries = self.entries[shown.start : shown.stop]
        complete = len(entries) == len(self.entries) and not self.beyond
        claims = [(entry.max_size, entry.min_size, 1) for entry in entries]
        allotted = allocate_space(claims, room if complete else room - self._note)
        listed: list[Json] = [e.fit(g) for e, g in zip(entries, allotted, strict=True)]
        if complete:
            return listed, None
        left = len(self.entries) - len(entries) + self.beyond
        return listed, self.get.to_json(left, **self.resume(0 if shown.start else shown.stop))

    def _shown(self, room: int) -> range:
        if not self.beyond and sum(entry.min_size for entry in self.entries) <= room:
            return range(len(self.entries))
        room -= self._note
        first = last = self.focus
        places = range(len(self.entries))
        for place in sorted(places, key=lambda place: (abs(place - self.focus), -place)):
            room -= self.entries[place].min_size
            if room < 0:
                break
            first, last = min(first, place), max(last, place + 1)
        return range(first, last)


Part: TypeAlias = TextField | SingleEntry | EntryList


def build_packet(
    frame: Body, parts: Sequence[Part], *, ending: Body, room: int, again: FetchCall
) -> Body:
    """Build a context of at most `room` bytes. The fields of `frame` and `ending` are never cut.

    `again` is the call that requests the same context with a larger size limit.
    """
    lists = [part for part in parts if isinstance(part, EntryList)]
    left = room - json_size({**frame, **ending}) - CUT_OVERHEAD - sum(part.empty for part in lists)
    admitted = _admitted(parts, left, again)
    names = {part.name for part in admitted}
    absent: list[Json] = [part.name for part in parts if part.name not in names]
    if absent:
        left -= _more(absent, again)
    allotted = allocate_space([(part.most, part.floor, part.counts) for part in admitted], left)
    room_of = {part.name: share for part, share in zip(admitted, allotted, strict=True)}
    body, cut = dict(frame), Body()
    for part in parts:
        if part.name in names:
            body[part.name], note = part.fitted(room_of[part.name])
            if note is not None:
                cut[part.name] = note
        elif isinstance(part, EntryList):
            body[part.name] = []
    if absent:
        cut[MORE] = again.to_json(absent)
    return {**body, **({"cut": cut} if cut else {}), **ending}


def _admitted(parts: Sequence[Part], room: int, again: FetchCall) -> list[Part]:
    if sum(part.floor for part in parts) <= room:
        return [*parts]
    room -= _more([part.name for part in parts], again)
    admitted: list[Part] = []
    for part in parts:
        if part.floor <= room:
            room -= part.floor
            admitted.append(part)
    return admitted


def _more(names: Sequence[Json], again: FetchCall) -> int:
    return json_size({MORE: again.to_json([*names])})
