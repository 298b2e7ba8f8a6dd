"""The tool table of `README.md`: one row per tool or per group of tools.

Existing rows keep their wording. A new tool gets a row with its title; a removed tool is deleted
from its row.
"""

import re
from collections.abc import Iterator, Mapping

from waybook.app.request.tool import Tool

_TABLE = re.compile(r"(\| tool \| purpose \|\n\|---\|---\|\n)((?:\|.*\n)+)")
_NAME = re.compile(r"`(\w+)`")


def render(page: str, tools: Mapping[str, Tool]) -> str:
    """Return the page with its tool table updated to name exactly the existing tools."""
    return _TABLE.sub(lambda table: table[1] + "".join(_rows(table[2], tools)), page)


def _rows(rows: str, tools: Mapping[str, Tool]) -> Iterator[str]:
    listed = set()
    for row in rows.splitlines():
        _, names, summary, _ = row.split("|")
        if not _NAME.search(names):  # A row without tool names is the heading of a group.
            yield f"{row}\n"
            continue
        known = [name for name in _NAME.findall(names) if name in tools]
        listed.update(known)
        if known:
            yield _row(known, summary.strip())
    for name, tool in tools.items():
        if name not in listed:
            yield _row([name], tool.title)


def _row(names: list[str], summary: str) -> str:
    return f"| {', '.join(f'`{name}`' for name in names)} | {summary} |\n"
