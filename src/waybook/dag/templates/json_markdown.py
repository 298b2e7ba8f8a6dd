"""Converts JSON to readable Markdown: headings, lists, and tables.

Texts inside the value are not escaped, because they may be Markdown.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from waybook.conditions.values import Json

#: Depth of nesting up to which values are formatted. Deeper values are shown as JSON.
MAX_DEPTH = 6
MAX_CHARACTERS = 1 << 20
MAX_TABLE_COLUMNS = 8
#: Maximum length of a text without a heading of its own.
MAX_INLINE_LENGTH = 120
MAX_LABEL_LENGTH = 80

_NAMES = ("title", "name", "label", "heading", "key", "id", "question", "claim")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_\-\s]+")
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&])")
_TICKS = re.compile(r"`{3,}")

Record = Mapping[str, Json]


def json_to_markdown(value: Json, level: int = 2) -> str:
    r"""Return a value as Markdown. The headings begin at this level.

    >>> json_to_markdown({"riskLevel": "high", "steps": ["look", "leap"]})
    '- **Risk level:** high\n\n## Steps\n\n- look\n- leap'
    """
    blocks: list[str] = []
    left = MAX_CHARACTERS
    for block in _blocks(value, level, 0):
        left -= len(block) + 2
        if left < 0:
            blocks.append("*The rest is left out: it is too long.*")
            break
        blocks.append(block)
    return "\n\n".join(blocks)


def to_text(value: Json) -> str:
    """Return a value as text. None becomes an empty text, and lists and objects become JSON.

    >>> to_text(None), to_text(True), to_text("a"), to_text([1, "b"])
    ('', 'true', 'a', '[1, "b"]')
    """
    if value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Json, indent: int | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except ValueError:  # Python refuses to convert integers with too many digits.
        return "a number too large to be written"


def is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    return isinstance(value, list | tuple)


def one_line(text: str) -> str:
    return " ".join(text.split())


def heading(text: str, level: int) -> str:
    return f"{'#' * min(max(level, 1), 6)} {one_line(text)}".rstrip()


def cell(value: Json) -> str:
    return one_line(to_text(value)).replace("|", "\\|")


def code_block(text: str, language: str = "") -> str:
    """Return a code block. Its fence is longer than any fence in the text."""
    ticks = "`" * max(3, *(len(run) + 1 for run in _TICKS.findall(text)), 3)
    return f"{ticks}{language}\n{text}\n{ticks}"


def label(key: str) -> str:
    """Return an object key as a readable label.

    >>> label("riskLevel"), label("next_steps"), label("API")
    ('Risk level', 'Next steps', 'API')
    """
    words = [word for word in _WORDS.split(key[:MAX_LABEL_LENGTH]) if word]
    lowered = [word if word.isupper() else word.lower() for word in words]
    text = " ".join(lowered)
    return _MARKUP.sub(r"\\\1", text[:1].upper() + text[1:]) or "—"


def _blocks(value: Json, level: int, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH and not _is_plain(value):
        yield code_block(as_json(value, 2), "json")
    elif isinstance(value, dict):
        yield from _record(value, level, depth)
    elif is_list(value):
        yield from _list(value, level, depth)
    elif text := to_text(value).strip():
        yield text


def _record(record: Record, level: int, depth: int) -> Iterator[str]:
    brief = [f"- **{label(key)}:** {_briefly(v)}" for key, v in record.items() if _is_brief(v)]
    if brief:
        yield "\n".join(brief)
    for key, value in record.items():
        if not _is_brief(value):
            yield heading(label(key), level)
            yield from _blocks(value, level + 1, depth + 1)


def _list(items: Sequence[Json], level: int, depth: int) -> Iterator[str]:
    if columns := _columns(items):
        yield _table(items, columns)
    elif all(map(_is_plain, items)):
        yield "\n".join(f"- {_indented(to_text(item))}" for item in items)
    else:
        for number, item in enumerate(items, start=1):
            name, rest = _named(item)
            yield heading(f"{number}. {name}", level)
            yield from _blocks(rest, level + 1, depth + 1)


def _is_plain(value: Json) -> bool:
    return not isinstance(value, dict) and not is_list(value)


def _is_brief(value: Json) -> bool:
    if not _is_plain(value):
        return not value
    return not isinstance(value, str) or (len(value) <= MAX_INLINE_LENGTH and "\n" not in value)


def _briefly(value: Json) -> str:
    return (to_text(value).strip() if _is_plain(value) else "") or "—"


def _columns(items: Sequence[Json]) -> tuple[str, ...]:
    first = items[0] if items else None
    if not isinstance(first, dict) or not 0 < len(first) <= MAX_TABLE_COLUMNS:
        return ()
    keys = set(first)
    alike = (
        isinstance(item, dict)
        and item.keys() == keys
        and all(_is_plain(value) for value in item.values())
        for item in items
    )
    return tuple(first) if all(alike) else ()


def _table(items: Sequence[Json], columns: Sequence[str]) -> str:
    head = [label(key) for key in columns]
    rows = [[cell(item.get(key)) for key in columns] for item in items if isinstance(item, dict)]
    lines = [head, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


def _named(item: Json) -> tuple[str, Json]:
    if isinstance(item, dict):
        for key in _NAMES:
            name = item.get(key)
            if isinstance(name, str) and name.strip() and _is_brief(name):
                return one_line(name), {k: v for k, v in item.items() if k != key}
    return "", item
