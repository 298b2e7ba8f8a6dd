"""Reads Mermaid flowcharts: nodes become steps, and arrows become dependencies."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from itertools import product
from typing import Final

from waybook.importers.steps import Item, ItemList, at_line

_HEADER: Final = re.compile(r"\s*(?:flowchart(?:-elk)?|graph)\b\s*(?:TB|TD|BT|RL|LR)?\s*;?\s*(.*)")
_IGNORED: Final = re.compile(
    r"(?:classDef|class|style|linkStyle|click|direction|accTitle|accDescr)\b.*"
)
_DESCRIPTION: Final = re.compile(r"accDescr\s*\{.*")
_SUBGRAPH: Final = re.compile(r"subgraph\b\s*(.*)")
_WORD: Final = r"[^\s\[\](){}<>|&;\"'`=~.@:-]+"
_ID: Final = re.compile(rf"{_WORD}(?:[-.](?![-.>]){_WORD})*")
_SHAPES: Final = (
    *(("(((", ")))"), ("([", "])"), ("[[", "]]"), ("[(", ")]"), ("((", "))"), ("{{", "}}")),
    *(("[/", "/]"), ("[/", "\\]"), ("[\\", "\\]"), ("[\\", "/]")),
    *(("[", "]"), ("(", ")"), ("{", "}"), (">", "]")),
)
_LINK: Final = re.compile(
    r"""\s*(?P<tail>[<xo](?=[-=]))?
        (?:(?P<plain>--+|==+|-\.+-?|~~~+)(?P<head>>|[xo](?!\w))?
        )""",
    re.VERBOSE,
)
_LABELED_LINK: Final = re.compile(
    r"\s*(?P<tail>[<xo])?(?:--(?![->])\s*(?P<a>[^-|\n]+?)\s*--+(?P<ha>[->xo])"
    r"|==(?![=>])\s*(?P<b>[^=|\n]+?)\s*==+(?P<hb>[=>xo])"
    r"|-\.(?![->.])\s*(?P<c>[^|\n]+?)\s*\.+-(?P<hc>>)?)"
)
_LINK_NAME: Final = re.compile(r"\s*([\w-]+)@(?=[<xo]?[-=~])")
_PIPE_LABEL: Final = re.compile(r"\s*\|([^|\n]*)\|")
_ATTRIBUTES: Final = re.compile(r"@\{([^}\n]*)\}")
_LABEL: Final = re.compile(r"label\s*:\s*(\"[^\"]*\"|'[^']*'|[^,}]+)")
_CLASS: Final = re.compile(r":::[\w-]+")
_ENTITY: Final = re.compile(r"#(\w+);")
_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)
_STATUS_NOTE: Final = re.compile(r"\S+ [A-Za-z ]+, step \d+")


#: First of the surrogate characters, which cannot be stored.
_FIRST_SURROGATE: Final = 0xD800
MAX_LINE_LENGTH: Final = 10_000
MAX_EDGES: Final = 20_000
_MAX_LABEL_LINES: Final = 20


@dataclass(slots=True)
class _Chart:
    labels: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    edges: list[tuple[str, str, str, int]] = field(default_factory=list)
    members: dict[str, dict[str, None]] = field(default_factory=dict)
    open_groups: list[str] = field(default_factory=list)
    link_names: set[str] = field(default_factory=set)


def is_mermaid(text: str) -> bool:
    first = next(_statements(text), (1, ""))
    return _HEADER.fullmatch(first[1]) is not None


def read_mermaid(text: str) -> ItemList:
    """Return the nodes of a flowchart as tasks. Texts on arrows become part of the instructions."""
    front = re.match(r"\s*---\n(.*?)\n---", text, re.DOTALL)
    title = re.search(r"^title:\s*(.+)$", front[1], re.MULTILINE) if front else None
    chart, last, begun = _Chart(), 1, False
    for last, statement in _statements(text):
        rest = statement.strip()
        if not begun:
            header = _HEADER.fullmatch(statement)
            if header is None:
                raise at_line(last, "a flowchart begins with “flowchart LR” or “graph TD”")
            begun, rest = True, header[1].strip()
        if rest:
            _read_statement(chart, rest, last)
    if chart.open_groups:
        raise at_line(last, f"the subgraph {chart.open_groups[-1]} has no end")
    name = title[1].strip().strip("\"'") if title else ""
    if not chart.lines:
        raise at_line(last, "this flowchart has no nodes")
    return ItemList([*_items(chart)], name, is_graph=True)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    front, description = False, False
    for number, line in _joined_lines(text):
        stripped = line.strip()
        if description or (not front and _DESCRIPTION.fullmatch(stripped)):
            description = "}" not in stripped
        elif stripped == "---":
            front = not front
        elif not front and stripped and not stripped.startswith(("%%", "```")):
            for part in _split_outside_quotes(stripped):
                if part.strip():
                    yield number, part


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: tuple[int, str] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        first, before = pending or (number, "")
        joined = f"{before}<br>{line.strip()}" if pending else line
        if len(joined) > MAX_LINE_LENGTH:
            raise at_line(number, f"this line has more than {MAX_LINE_LENGTH:,} characters")
        is_quoted = joined.count('"') % 2 == 1 or joined.rfind('"`') > joined.rfind('`"')
        is_comment = joined.lstrip().startswith("%%")
        is_open = number - first < _MAX_LABEL_LINES and is_quoted and not is_comment
        pending = (first, joined) if is_open else None
        if pending is None:
            yield first, joined
    if pending is not None:
        yield pending


def _split_outside_quotes(line: str) -> Iterator[str]:
    start, quoted = 0, False
    for place, char in enumerate(line):
        if char == '"':
            quoted = not quoted
        is_entity = re.search(r"#\w+$", line[max(0, place - 12) : place]) is not None
        if char == ";" and not quoted and not is_entity:
            yield line[start:place]
            start = place + 1
    yield line[start:]


def _read_statement(chart: _Chart, text: str, number: int) -> None:
    group = _SUBGRAPH.fullmatch(text)
    if group:
        named = _ID.match(group[1].strip())
        key = named[0] if named else f"subgraph {len(chart.members) + 1}"
        chart.members.setdefault(key, {})
        chart.open_groups.append(key)
    elif text == "end":
        if not chart.open_groups:
            raise at_line(number, "“end” without a subgraph")
        chart.open_groups.pop()
    elif not _IGNORED.fullmatch(text):
        _read_chain(chart, text, number)


def _read_chain(chart: _Chart, text: str, number: int) -> None:
    """Read a statement such as `a --> b`, and add its nodes and links to the chart."""
    sources, place = _read_nodes(chart, text, 0, number)
    while place < len(text.rstrip()):
        named = _LINK_NAME.match(text, place)
        if named:
            chart.link_names.add(named[1])
            place = named.end()
        label, direction, place = _read_link(text, place, number)
        targets, place = _read_nodes(chart, text, place, number)
        if direction and len(chart.edges) + len(sources) * len(targets) > MAX_EDGES:
            raise at_line(number, f"more than {MAX_EDGES:,} arrows; import a part of the chart")
        for pair in product(sources, targets) if direction else ():
            ends = pair if direction > 0 else reversed(pair)
            chart.edges.append((*ends, label, number))
        sources = targets


def _read_nodes(chart: _Chart, text: str, place: int, number: int) -> tuple[list[str], int]:
    keys: list[str] = []
    while True:
        place += len(text[place:]) - len(text[place:].lstrip())
        match = _ID.match(text, place)
        if match is None:
            raise at_line(number, f"a node is expected at “{text[place : place + 30]}”")
        label, place = _read_label(text, match.end(), number)
        key = match[0]
        if key not in chart.members and key not in chart.link_names:
            chart.lines.setdefault(key, number)
            if label is not None:
                chart.labels[key] = label
            for group in chart.open_groups:
                chart.members[group][key] = None
        keys.append(key)
        rest = text[place:].lstrip()
        if not rest.startswith("&"):
            return keys, place
        place = len(text) - len(rest) + 1


def _read_label(text: str, place: int, number: int) -> tuple[str | None, int]:
    label: str | None = None
    attributes = _ATTRIBUTES.match(text, place)
    if attributes:
        named = _LABEL.search(attributes[1])
        label, place = named and named[1].strip().strip("\"'"), attributes.end()
    else:
        for opening, closing in _SHAPES:
            if text.startswith(opening, place):
                end = _closing(text, place + len(opening), closing)
                if end is not None:
                    label, place = text[place + len(opening) : end], end + len(closing)
                    break
        else:
            if place < len(text) and text[place] in "[({":
                raise at_line(number, f"the text at “{text[place : place + 30]}” is not closed")
    class_name = _CLASS.match(text, place)
    return label, class_name.end() if class_name else place


def _closing(text: str, start: int, closing: str) -> int | None:
    if text.startswith('"', start):
        quote = text.find('"', start + 1)
        return quote + 1 if quote > 0 and text.startswith(closing, quote + 1) else None
    end = text.find(closing, start)
    return end if end >= 0 else None


def _read_link(text: str, place: int, number: int) -> tuple[str, int, int]:
    """Return a link's text, its direction (1, -1, or 0 if undirected), and its end position."""
    labeled = _LABELED_LINK.match(text, place)
    if labeled:
        label = labeled["a"] or labeled["b"] or labeled["c"] or ""
        head = labeled["ha"] or labeled["hb"] or labeled["hc"] or ""
        end, tail = labeled.end(), labeled["tail"]
    else:
        link = _LINK.match(text, place)
        if link is None:
            raise at_line(number, f"a link such as --> is expected at “{text[place : place + 30]}”")
        label, head, end, tail = "", link["head"] or "", link.end(), link["tail"]
        pipe = _PIPE_LABEL.match(text, end)
        if pipe:
            label, end = pipe[1], pipe.end()
    if head == ">" and tail == "<":
        raise at_line(number, "an arrow in both directions gives no order; remove one direction")
    return _plain(label), (head == ">") - (tail == "<"), end


def _plain(label: str) -> str:
    text = label.strip().strip('"').strip("`")
    text = _BREAK.sub("\n", text)
    return unescape(_ENTITY.sub(_character, text)).strip()


def _character(entity: re.Match[str]) -> str:
    digits = entity[1]
    is_code = digits.isascii() and digits.isdecimal() and 0 < int(digits[:8]) < _FIRST_SURROGATE
    return chr(int(digits)) if is_code else f"&{digits};"


def _items(chart: _Chart) -> Iterator[Item]:
    after: dict[str, list[tuple[str, int]]] = {}
    conditions: dict[str, list[str]] = {}
    titles = {key: _plain(chart.labels.get(key, key)) or key for key in chart.lines}
    count = 0
    for source, target, label, line in chart.edges:
        targets, sources = chart.members.get(target, [target]), chart.members.get(source, [source])
        count += len(targets) * len(sources)
        if count > MAX_EDGES:
            raise at_line(line, f"more than {MAX_EDGES:,} arrows; import a part of the chart")
        for later, earlier in product(targets, sources):
            after.setdefault(later, []).append((earlier, line))
            if label:
                name = titles[earlier].split("\n")[0]
                conditions.setdefault(later, []).append(f"Only if “{name}” gives: {label}")
    for key, line in chart.lines.items():
        title, *rest = titles[key].split("\n")
        texts = [text for text in rest if not _STATUS_NOTE.fullmatch(text.strip())]
        texts += conditions.get(key, [])
        yield Item(
            key=key,
            title=title,
            text="\n".join([title, *texts]),
            line=line,
            after=tuple(after.get(key, ())),
        )
