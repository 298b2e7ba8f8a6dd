"""Lists for terminals, pipes and programs: tables of full width, TSV and chosen JSON fields.

This module imports few others, because lists must appear fast.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import click

from waybook.cli.lazy import load
from waybook.cli.output import print_json
from waybook.core.durations import format_age
from waybook.core.hidden_characters import escape_hidden
from waybook.core.shown import look_of, tone_of

Row = Mapping[str, Any]

#: Value of `--json` without fields.
NO_FIELDS: Final = ""
ALL_FIELDS: Final = "all"
_GAP: Final = 2
_MIN_NAME_WIDTH: Final = 24
_MIN_COLUMNS: Final = 4

#: Style of each tone.
_STYLES: Final = {
    "done": "green",
    "skip": "cyan",
    "fail": "red",
    "ask": "bold magenta",
    "warn": "yellow",
    "run": "blue",
    "todo": "dim",
}


class Column(NamedTuple):
    """Column of a list. The name has the space that is left; others are left out before it."""

    heading: str
    text: Callable[[Row], str]
    style: Callable[[Row], str] = lambda _: ""
    #: Text in pipes, if it differs.
    plain: Callable[[Row], str] | None = None


def style_of(status: str) -> str:
    """Return the style of a state, or of a stored status."""
    return _STYLES[tone_of(status)]


def status_column() -> Column:
    return Column(
        "status",
        lambda row: f"{look_of(row['state']).symbol} {look_of(row['state']).word}",
        lambda row: style_of(row["state"]),
        plain=lambda row: row["state"],
    )


def age_column(heading: str, field: str) -> Column:
    return Column(
        heading, lambda row: age_of(row, field), lambda _: "dim", plain=lambda row: row[field]
    )


def age_of(row: Row, field: str) -> str:
    """Return the age of a time at the time of the answer, which is in the field `now`."""
    return format_age(datetime.fromisoformat(row[field]), datetime.fromisoformat(row["now"]))


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_list(
    answer: Row, name: str, columns: Sequence[Column], fields: str | None, empty: str
) -> None:
    """Print the rows of an answer: as chosen fields, as TSV in a pipe, or as a table."""
    rows = answer[name]
    if fields is not None:
        print_fields(rows, fields)
    elif not is_terminal():
        for row in rows:
            click.echo("\t".join(map(flat, ((c.plain or c.text)(row) for c in columns))))
    elif rows:
        dated = [{**row, "now": answer.get("now")} for row in rows]
        for line in table_lines(dated, columns, shutil.get_terminal_size().columns):
            click.echo(line)
    else:
        click.echo(empty)


def print_fields(value: Row | Sequence[Row], fields: str) -> None:
    """Print the chosen fields as JSON. Without fields, list those that exist."""
    rows = [value] if isinstance(value, Mapping) else value
    known = sorted({name for row in rows for name in row})
    if fields == NO_FIELDS:
        if not rows:
            click.echo("The list is empty, so its fields are not known.", err=True)
        for name in known:
            click.echo(name)
        return
    if fields == ALL_FIELDS:
        print_json(value, tight=isinstance(value, Mapping))
        return
    named = [name.strip() for name in fields.split(",")]
    if rows and (unknown := [name for name in named if name not in known]):
        message = f"there is no field {unknown[0]}. The fields are {', '.join(known)}."
        raise click.BadParameter(message, param_hint="--json")
    chosen = [{name: row.get(name) for name in named} for row in rows]
    print_json(chosen[0] if isinstance(value, Mapping) else chosen)


def flat(value: object) -> str:
    r"""Return a value as one line, for TSV.

    >>> flat("a\tb\nc"), flat(None), flat(True)
    ('a b c', '', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else escape_hidden(" ".join(str(value).split()))


def table_lines(rows: Sequence[Row], columns: Sequence[Column], width: int) -> list[str]:
    """Return a table of at most this width, with headings.

    The second column is the name. If it would be too narrow, the last columns are left out.
    """
    texts = [[flat(column.text(row)) for column in columns] for row in rows]
    cells = [
        max(cell_width(column.heading), *(cell_width(line[n]) for line in texts))
        for n, column in enumerate(columns)
    ]
    shown = len(columns)
    while shown > _MIN_COLUMNS and _left(cells[:shown], width) < min(cells[1], _MIN_NAME_WIDTH):
        shown -= 1
    cells = cells[:shown]
    cells[1] = max(4, min(cells[1], _left(cells, width)))
    head = [styled(_fit(c.heading, n), "bold") for c, n in zip(columns, cells, strict=False)]
    lines = [(" " * _GAP).join(head).rstrip()]
    for row, line in zip(rows, texts, strict=True):
        parts = [
            styled(_fit(text, n), column.style(row))
            for text, n, column in zip(line, cells, columns, strict=False)
        ]
        lines.append((" " * _GAP).join(parts).rstrip())
    return lines


def _left(cells: Sequence[int], width: int) -> int:
    """Return the width that the other columns leave for the second one."""
    return width - sum(cells) + cells[1] - _GAP * (len(cells) - 1)


def styled(text: str, style: str) -> str:
    words = style.split()
    color = next((word for word in words if word not in {"bold", "dim"}), None)
    if not words or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=color, bold="bold" in words or None, dim="dim" in words or None)


def cell_width(text: str) -> int:
    if text.isascii():
        return len(text)
    width: int = load("rich.cells:cell_len")(text)
    return width


def _fit(text: str, width: int) -> str:
    """Return a text of exactly this width, cut or padded."""
    if cell_width(text) > width:
        text = f"{_cut(text, width - 1)}…"
    return text + " " * (width - cell_width(text))


def _cut(text: str, width: int) -> str:
    while cell_width(text) > width:
        text = text[: -max(1, (cell_width(text) - width) // 2)]
    return text
