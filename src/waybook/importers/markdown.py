"""Reads plans in Markdown: a report from Waybook, a check list, a numbered list, or headings."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from waybook.core.hidden_characters import without_escapes
from waybook.core.shown import FINISHED, word_of
from waybook.importers.steps import MAX_TEXT_LENGTH, Item, ItemList, at_line
from waybook.plan.model import StepType

_NUMBER: Final = r"(?:steps?\s+|tasks?\s+|items?\s+)?#?\d{1,6}(?:\.\d{1,6})*"
_LIST: Final = rf"{_NUMBER}(?:\s*(?:,\s*and|,|&|and)\s*{_NUMBER})*"
#: A list of numbers that begins with `#`, so that “needs 2 days” is not read as a reference.
_HASHED_LIST: Final = rf"(?:steps?\s+|tasks?\s+|items?\s+)?(?=#){_LIST}"
_VERB: Final = r"depends\s+on|depend\s+on|blocked\s+by|requires|needs"
#: The places in a line where references to other items are recognized.
_PATTERNS: Final = (
    re.compile(rf"\s*[(\[](?:after|{_VERB}):?\s+(?P<list>{_LIST})\s*[)\]]", re.IGNORECASE),
    re.compile(rf"\s*[;,—-]\s*(?:after|{_VERB}):?\s+(?P<list>{_LIST})\s*\.?\s*$", re.IGNORECASE),
    re.compile(rf"(?:^|\s)(?:{_VERB}):?\s+(?P<list>{_HASHED_LIST})\.?", re.IGNORECASE),
)
_KEY: Final = re.compile(r"#?\d{1,6}(?:\.\d{1,6})*")


def _take_references(line: str) -> tuple[str, list[str]]:
    """Remove references to other tasks from a line. Return the line and the referenced keys.

    >>> _take_references("Write it (after 2 and #3)")
    ('Write it', ['2', '#3'])
    >>> _take_references("Wait (after 2 days)")
    ('Wait (after 2 days)', [])
    >>> _take_references("Draft; after 1, 2")
    ('Draft', ['1', '2'])
    """
    keys: list[str] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(line):
            keys += _KEY.findall(match["list"])
        line = pattern.sub("", line)
    return line.strip(), keys


_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*$")
_FENCE: Final = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_COMMENT: Final = re.compile(r"[ ]{0,3}<!--")
#: First line of a GitHub task list, which has the syntax of a code block.
_TASK_LIST: Final = re.compile(r"[ ]{0,3}`{3,}[ \t]*\[tasklist\][ \t]*")
_CHECK: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\][ \t]+(.*\S)[ \t]*")
_NUMBERED: Final = re.compile(r"([ \t]*)(\d{1,9})[.)][ \t]+(.*\S)[ \t]*")
_BULLET: Final = re.compile(r"([ \t]*)[-*+][ \t]+(.*\S)[ \t]*")
_LEADING_NUMBER: Final = re.compile(
    r"(?:(?:step|task|phase)\s+#?)?(\d{1,6}(?:\.\d{1,6})*)[.):]\s+(?=\S)", re.IGNORECASE
)
_REPORT_STEPS: Final = "## Steps"
_REPORT_STEP: Final = re.compile(r"### \d{1,6}\. .*")
_REPORT_STATUS: Final = re.compile(r"\S+ ([^,]+), ([a-z]+)(?:, attempt \d+)?")
#: Maximum length of a line. A longer line would not fit into a step.
MAX_LINE_LENGTH: Final = MAX_TEXT_LENGTH + 100
#: States of a report; reports of earlier versions have the stored status.
_DONE_LABELS: Final = frozenset({*FINISHED, *map(word_of, FINISHED)})


class Line(NamedTuple):
    number: int
    text: str
    #: True if the line is in a code block, where headings and list items are plain text.
    is_code: bool

    def heading(self) -> tuple[int, str] | None:
        match = None if self.is_code else _HEADING.fullmatch(self.text)
        return (len(match[1]), match[2].strip()) if match else None

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return None if self.is_code else pattern.fullmatch(self.text)


def read_markdown(text: str) -> ItemList:
    lines = [*split_lines(text)]
    plain = [line.text for line in lines if not line.is_code]
    if _REPORT_STEPS in plain and any(map(_REPORT_STEP.fullmatch, plain)):
        return _report([line._replace(text=without_escapes(line.text)) for line in lines])
    items = (
        _list(lines, _CHECK, _check_item)
        or _list(lines, _NUMBERED, lambda match: (f"{match[2]}. {match[3]}", False))
        or _headings(lines)
        or _list(lines, _BULLET, lambda match: (match[2], False))
    )
    if not items:
        raise at_line(
            max(1, len(lines)),
            "there are no tasks up to this line; write them as “- [ ] task”, “1. task”, or "
            "headings with text",
        )
    return ItemList(_numbered_once(items), *_preamble(lines))


def read_check_list(text: str) -> list[Item]:
    return _numbered_once(_list([*split_lines(text)], _CHECK, _check_item), strip="")


def _numbered_once(items: Sequence[Item], strip: str = "#") -> list[Item]:
    """Return list items with their numbers as keys, or with their positions if a number repeats."""
    is_unique = len({item.key for item in items}) == len(items)
    return [
        item._replace(
            key=item.key if is_unique else str(place),
            after=tuple((key.lstrip(strip) if strip else key, line) for key, line in item.after),
        )
        for place, item in enumerate(items, start=1)
    ]


def split_lines(text: str) -> Iterator[Line]:
    """Yield the lines without HTML comments, which contain instructions in issue templates."""
    ended = re.split(r"\r?\n", text)
    last_end = max((n for n, line in enumerate(ended, start=1) if "-->" in line), default=0)
    fence, is_task_list, is_comment = "", False, False
    for number, line in enumerate(ended, start=1):
        if len(line) > MAX_LINE_LENGTH:
            raise at_line(number, f"this line has more than {MAX_LINE_LENGTH:,} characters")
        if is_comment or (not fence and number <= last_end and _COMMENT.match(line)):
            is_comment = "-->" not in line
            continue
        before, fence = fence, _fence_after(line, fence)
        if fence and not before:
            is_task_list = _TASK_LIST.fullmatch(line) is not None
        if fence == before:
            yield Line(number, line, is_code=bool(fence) and not is_task_list)
        elif not is_task_list:
            yield Line(number, line, is_code=True)


def _fence_after(line: str, fence: str) -> str:
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    if not fence:
        return mark[1]
    return "" if line.strip() == mark[1] and mark[1].startswith(fence) else fence


def _preamble(lines: Sequence[Line]) -> tuple[str, str]:
    """Return the name of a plan and its question, which are above the tasks."""
    name, texts = "", list[str]()
    for line in lines:
        heading = line.heading()
        if heading and heading[0] == 1 and not name and not any(texts):
            name = heading[1]
        elif heading or line.is_code or line.match(_NUMBERED) or line.match(_BULLET):
            break
        else:
            texts.append(line.text.removeprefix("> "))
    return name, "\n".join(texts).strip()


def _check_item(match: re.Match[str]) -> tuple[str, bool]:
    return match[3], match[2] != " "


def _list(
    lines: Sequence[Line],
    pattern: re.Pattern[str],
    read: Callable[[re.Match[str]], tuple[str, bool]],
) -> list[Item]:
    starts = [(place, match) for place, line in enumerate(lines) if (match := line.match(pattern))]
    outer = min((_indent(match[1]) for _, match in starts), default=0)
    starts = [(place, match) for place, match in starts if _indent(match[1]) <= outer]
    section, items = "", list[Item]()

    def belongs_to_item(line: Line) -> bool:
        is_inner = not line.text.strip() or line.is_code or _indent(line.text) > outer
        return is_inner and line.heading() is None

    for index, (place, match) in enumerate(starts):
        end = starts[index + 1][0] if index + 1 < len(starts) else len(lines)
        above = lines[starts[index - 1][0] if index else 0 : place]
        headings = [heading for line in above if (heading := line.heading())]
        section = next((name for level, name in reversed(headings) if level > 1), section)
        words, done = read(match)
        following = lines[place + 1 : end]
        body = [*takewhile(belongs_to_item, following)]
        item = _item(words, body, lines[place].number, index + 1, section=section, done=done)
        unread = [n for n in following[len(body) :] if n.text.strip() and not n.heading()]
        items.append(item._replace(unread=tuple(line.number for line in unread)))
    return items


def _indent(text: str) -> int:
    spaces = text[: len(text) - len(text.lstrip(" \t"))]
    return len(spaces.expandtabs(4))


def _headings(lines: Sequence[Line]) -> list[Item]:
    """Return an item for each heading of the highest level that occurs more than once."""
    headings = [(place, h) for place, line in enumerate(lines) if (h := line.heading())]
    levels = [level for _, (level, _) in headings]
    level = min((level for level in levels if levels.count(level) > 1), default=0)
    ends = [place for place, (other, _) in headings if other <= level] + [len(lines)]
    starts = [(place, name) for place, (other, name) in headings if other == level]
    return [
        _item(name, lines[place + 1 : ends[bisect_right(ends, place)]], lines[place].number, index)
        for index, (place, name) in enumerate(starts, start=1)
    ]


def _item(
    words: str,
    body: Sequence[Line],
    number: int,
    place: int,
    *,
    section: str = "",
    done: bool = False,
) -> Item:
    title, keys = _take_references(words)
    after = [(key, number) for key in keys]
    texts = []
    for line in body:
        rest, more = (line.text, []) if line.is_code else _take_references(line.text)
        after += [(key, line.number) for key in more]
        # If a line has only references to other tasks, it is not part of the instructions.
        if not more or rest:
            texts.append(line.text)
    named = _LEADING_NUMBER.match(title)
    key, title = (named[1], title[named.end() :]) if named else (str(place), title)
    least = min((_indent(text) for text in texts if text.strip()), default=0)
    cut = [text[least:] if text[:least].isspace() or not least else text.strip() for text in texts]
    text = "\n".join(text.rstrip() for text in cut).strip("\n")
    if section:
        text = f"{text}\n\nPart of: {section}".strip()
    return Item(
        key=key,
        title=title,
        text=f"{title}\n\n{text}" if text else title,
        line=number,
        done=done,
        after=tuple(after),
    )


def _report(lines: Sequence[Line]) -> ItemList:
    first = next(place for place, line in enumerate(lines) if line.text == _REPORT_STEPS)
    head = lines[:first]
    name = next((h[1] for line in head if (h := line.heading())), "")
    headings = [(p, h[0]) for p, line in enumerate(lines) if p > first and (h := line.heading())]
    end = next((p for p, level in headings if level <= _REPORT_STEPS.count("#")), len(lines))
    starts = [p for p in range(first + 1, end) if lines[p].match(_REPORT_STEP)]
    items = [_report_step(lines[place:until]) for place, until in pairwise([*starts, end])]
    if not items:
        raise at_line(lines[first].number, "this report has no steps")
    return ItemList(items, name, _quotation(head))


def _report_step(lines: Sequence[Line]) -> Item:
    number, after, status = lines[0].number, list[tuple[str, int]](), None
    _, order, title = lines[0].text.split(" ", 2)
    for line in lines[1:]:
        if line.text.startswith(">"):
            break
        status = status or line.match(_REPORT_STATUS)
        _, keys = _take_references(line.text)
        after += [(key.removeprefix("#"), line.number) for key in keys]
    if status is None or status[2] not in {str(kind) for kind in StepType}:
        raise at_line(number, f"step {order[:-1]} of this report has no line with status and type")
    text = _quotation(lines)
    # If a step has no title, its heading is the first line of its instructions.
    is_untitled = title == " ".join(text.strip().split("\n", 1)[0].split())
    return Item(
        key=order[:-1],
        title="" if is_untitled else title,
        text=text or title,
        line=number,
        type=StepType(status[2]),
        done=status[1] in _DONE_LABELS,
        after=tuple(after),
    )


def _quotation(lines: Sequence[Line]) -> str:
    quoted: list[str] = []
    for line in lines:
        if line.text.startswith(">"):
            quoted.append(line.text[1:].removeprefix(" "))
        elif quoted:
            break
    return "\n".join(quoted)
