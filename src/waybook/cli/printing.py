"""What is printed without a picture: lines, texts and JSON, none of which a terminal obeys."""

import json
import sys
from typing import Final

import click

from waybook.record.oddities import is_odd, visible

#: JSON without a blank to spare.
TIGHT: Final = (",", ":")


def say(text: str, *, err: bool = False) -> None:
    """Print a line that has stored text in it."""
    click.echo(visible(text), err=err)


def say_whole(text: str) -> None:
    """Print a stored text: as it is into a file or a pipe, written out for a person."""
    shown = visible(text) if sys.stdout.isatty() else text
    # Otherwise click takes out what looks like colours, and a file would not be what was stored.
    click.echo(shown, nl=not text.endswith("\n"), color=True)


def say_json(value: object, *, tight: bool = False, indent: int | None = None) -> None:
    """Print JSON of which every character can be seen; whoever reads it as JSON reads the same."""
    blanks = TIGHT if tight else None
    told = json.dumps(value, ensure_ascii=False, indent=indent, separators=blanks, default=str)
    click.echo(escaped(told))


def escaped(text: str) -> str:
    r"""JSON with its odd characters escaped.

    >>> print(escaped('{"a":"\x9b31m\U000e0041"}'))
    {"a":"\u009b31m\udb40\udc41"}
    """
    if not is_odd(text):
        return text
    return "".join(json.dumps(c)[1:-1] if is_odd(c) else c for c in text)
