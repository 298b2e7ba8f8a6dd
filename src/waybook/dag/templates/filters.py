"""Filters and comparisons for templates, and the conversion of JSON to readable Markdown.

Filters and comparisons accept values of all types and never raise an error. Texts inside a
converted value are not escaped, because they may be Markdown.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeGuard

from waybook.conditions.values import Json

#: Maximum depth of nesting at which values are formatted. Deeper values are shown as JSON.
MAX_DEPTH = 6
MAX_CHARACTERS = 1 << 20
MAX_TABLE_COLUMNS = 8
#: Maximum length of a text that is shown without a heading of its own.
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
    brief = [
        f"- **{label(key)}:** {((to_text(v).strip() if _is_plain(v) else '') or '—')}"
        for key, v in record.items()
        if _is_brief(v)
    ]
    if brief:
        yield "\n".join(brief)
    for key, value in record.items():
        if not _is_brief(value):
            yield heading(label(key), level)
            yield from _blocks(value, level + 1, depth + 1)


def _list(items: Sequence[Json], level: int, depth: int) -> Iterator[str]:
    if columns := _columns(items):
        rows = [[cell(row.get(key)) for key in columns] for row in items if isinstance(row, dict)]
        lines = [list(map(label, columns)), ["---"] * len(columns), *rows]
        yield "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    elif all(map(_is_plain, items)):
        texts = (to_text(item).strip().replace("\n", "\n  ") for item in items)
        yield "\n".join(f"- {text}" for text in texts)
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


def _columns(items: Sequence[Json]) -> Sequence[str]:
    """Return the keys of the items if the items can be shown as the rows of a table."""
    first = items[0] if items else None
    if not isinstance(first, dict) or len(first) > MAX_TABLE_COLUMNS:
        return ()
    alike = (
        isinstance(item, dict)
        and item.keys() == first.keys()
        and all(map(_is_plain, item.values()))
        for item in items
    )
    return tuple(first) if all(alike) else ()


def _named(item: Json) -> tuple[str, Json]:
    if isinstance(item, dict):
        for key in _NAMES:
            name = item.get(key)
            if isinstance(name, str) and name.strip() and _is_brief(name):
                return one_line(name), {k: v for k, v in item.items() if k != key}
    return "", item


def iterate(value: Json, parts: int = 0) -> Sequence[Json]:
    """Return the items of a template loop: list items, mapping keys, or the single value.

    >>> iterate({"a": 1}), iterate({"a": 1}, 2), iterate("b", 2)
    (('a',), [['a', 1]], [['b', None]])
    """
    if parts:
        items = pairs(value) if isinstance(value, dict) else iterate(value)
        lists = [list(item[:parts]) if is_list(item) else [item] for item in items]
        return [values + [None] * (parts - len(values)) for values in lists]
    if value is None:
        return ()
    if isinstance(value, dict):
        return tuple(value)
    return value if is_list(value) else (value,)


def default(value: Json, instead: Json) -> Json:
    return instead if value is None or value in ("", [], {}, ()) else value


def join(value: Json, between: Json = "", field: Json = None) -> str:
    items = iterate(value)
    if field is not None:
        name = to_text(field)
        items = [item.get(name) if isinstance(item, dict) else None for item in items]
    return to_text(between).join(map(to_text, items))


def length(value: Json) -> int:
    return len(value) if isinstance(value, str | list | tuple | dict) else 0


def first(value: Json) -> Json:
    return next(iter(value), None) if isinstance(value, list | tuple | dict) else value


def last(value: Json) -> Json:
    return next(reversed(value), None) if isinstance(value, list | tuple | dict) else value


def pairs(value: Json) -> Sequence[Json]:
    return [[key, inner] for key, inner in value.items()] if isinstance(value, dict) else []


def _level(value: Json) -> int:
    return value if isinstance(value, int) else 2


class Filter(NamedTuple):
    function: Callable[..., Json]
    #: Allowed numbers of arguments.
    arguments: range = range(1)
    #: Whether the filter reads the whole value, so that its cost depends on the value's size.
    is_deep: bool = True


FILTERS: Mapping[str, Filter] = MappingProxyType(
    {
        "cell": Filter(cell),
        "default": Filter(default, range(1, 2), is_deep=False),
        "first": Filter(first, is_deep=False),
        "heading": Filter(lambda value, level=2: heading(to_text(value), _level(level)), range(2)),
        "items": Filter(pairs),
        "join": Filter(join, range(3)),
        "last": Filter(last, is_deep=False),
        "length": Filter(length, is_deep=False),
        "lower": Filter(lambda value: to_text(value).lower()),
        "markdown": Filter(lambda value, level=2: json_to_markdown(value, _level(level)), range(2)),
        "title": Filter(lambda value: to_text(value).title()),
        "tojson": Filter(as_json),
        "trim": Filter(lambda value: to_text(value).strip()),
        "upper": Filter(lambda value: to_text(value).upper()),
    }
)
TESTS: Mapping[str, Callable[[Json], bool]] = MappingProxyType(
    {
        "defined": lambda value: value is not None,
        "list": is_list,
        "mapping": lambda value: isinstance(value, dict),
        "none": lambda value: value is None,
        "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
        "string": lambda value: isinstance(value, str),
    }
)


def compare(left: Json, operator: str, right: Json) -> bool:
    """Return whether a comparison is true. Values that cannot be compared give False.

    >>> compare(2, "lt", 3), compare("2", "lt", 3), compare("a", "in", ["a"])
    (True, False, True)
    """
    if operator in {"in", "notin"}:
        return _contains(right, left) is (operator == "in")
    if operator in {"eq", "ne"}:
        return (left == right) is (operator == "eq")
    first, second = (left, right) if operator.startswith("lt") else (right, left)
    return _in_order(first, second) or (operator.endswith("eq") and left == right)


def _in_order(first: Json, second: Json) -> bool:
    if isinstance(first, str) and isinstance(second, str):
        return first < second
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first < second
    return False


def _contains(container: Json, value: Json) -> bool:
    if isinstance(container, str | dict):
        return isinstance(value, str) and value in container
    return is_list(container) and value in container
