"""What is printed without a picture: lines, texts and JSON, none of which a terminal obeys."""

import json
import sys
from typing import Final

import click

from waybook.core.hidden_characters import contains_hidden, escape_hidden

#: JSON without a blank to spare.
COMPACT_SEPARATORS: Final = (",", ":")


def print_line(text: str, *, err: bool = False) -> None:
    """Print a line that has stored text in it."""
    click.echo(escape_hidden(text), err=err)


def print_text(text: str) -> None:
    """Print a stored text: as it is into a file or a pipe, written out for a person."""
    shown = escape_hidden(text) if sys.stdout.isatty() else text
    # Otherwise click takes out what looks like colours, and a file would not be what was stored.
    click.echo(shown, nl=not text.endswith("\n"), color=True)


def print_json(value: object, *, tight: bool = False, indent: int | None = None) -> None:
    """Print JSON of which every character can be seen; whoever reads it as JSON reads the same."""
    blanks = COMPACT_SEPARATORS if tight else None
    told = json.dumps(value, ensure_ascii=False, indent=indent, separators=blanks, default=str)
    click.echo(escape_json(told))


def escape_json(text: str) -> str:
    r"""JSON with its odd characters escaped.

    >>> print(escape_json('{"a":"\x9b31m\U000e0041"}'))
    {"a":"\u009b31m\udb40\udc41"}
    """
    if not contains_hidden(text):
        return text
    return "".join(json.dumps(c)[1:-1] if contains_hidden(c) else c for c in text)
