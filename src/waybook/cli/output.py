"""Plain terminal output: lines, texts and JSON with control characters escaped."""

import codecs
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import click

from waybook.core.hidden_characters import contains_hidden, escape_hidden
from waybook.errors import InvalidInput

COMPACT_SEPARATORS: Final = (",", ":")
#: ASCII replacements for characters that a terminal may be unable to show.
ASCII_LOOKALIKES: Final = dict(
    zip("─━┄│├└✓✗▲“”·…→↳▸▾░▒▓█—◐●⊘◇»", '---|++vx!""..>>>v.:%#-o*0o>', strict=True)
)

_PLAIN: Final = frozenset({"C", "POSIX"})
_PLAIN_CODEC: Final = "plain_ascii"


def replace_unprintable_characters() -> None:
    """Make stdout and stderr print ASCII characters in place of those that they cannot encode."""
    codecs.register_error("lookalike", _lookalikes)
    codecs.register(_find_plain_codec)
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        name = codecs.lookup(stream.encoding).name
        if name == "ascii" or (_is_plain_locale() and stream.isatty()):
            stream.reconfigure(encoding=_PLAIN_CODEC, errors="lookalike")
        elif not name.startswith("utf"):
            stream.reconfigure(errors="lookalike")


def _is_plain_locale() -> bool:
    """Return whether the locale is C by choice, although Python then writes UTF-8."""
    chosen = os.environ.get("LC_ALL") or os.environ.get("LANG")
    return sys.flags.utf8_mode == 1 and not os.environ.get("PYTHONUTF8") and chosen in _PLAIN


def _find_plain_codec(name: str) -> codecs.CodecInfo | None:
    """Return ASCII under another name, because click writes UTF-8 to a stream named `ascii`."""
    if name != _PLAIN_CODEC:
        return None
    ascii_codec = codecs.lookup("ascii")
    return codecs.CodecInfo(
        ascii_codec.encode,
        ascii_codec.decode,
        incrementalencoder=ascii_codec.incrementalencoder,
        incrementaldecoder=ascii_codec.incrementaldecoder,
        name=name,
    )


def _lookalikes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(ASCII_LOOKALIKES.get(character, "?") for character in text), error.end


def done(message: str) -> str:
    """Return a line that reports a success."""
    return click.style(f"✓ {escape_hidden(message)}", fg="green")


def print_line(text: str, *, err: bool = False) -> None:
    click.echo(escape_hidden(text), err=err)


def print_text(text: str) -> None:
    """Print a stored text. On a terminal, hidden characters are escaped."""
    shown = escape_hidden(text) if sys.stdout.isatty() else text
    # With `color=True`, click keeps escape sequences, so that redirected output equals the stored
    # text.
    click.echo(shown, nl=not text.endswith("\n"), color=True)


def print_json(value: object, *, tight: bool = False, indent: int | None = None) -> None:
    """Print JSON with hidden characters escaped. It still parses to the same value."""
    blanks = COMPACT_SEPARATORS if tight else None
    is_plain = getattr(sys.stdout, "encoding", "utf-8") == _PLAIN_CODEC
    text = json.dumps(value, ensure_ascii=is_plain, indent=indent, separators=blanks, default=str)
    click.echo(escape_json(text))


def escape_json(text: str) -> str:
    r"""Return JSON text with hidden characters escaped.

    >>> print(escape_json('{"a":"\x9b31m\U000e0041"}'))
    {"a":"\u009b31m\udb40\udc41"}
    """
    if not contains_hidden(text):
        return text
    return "".join(json.dumps(c)[1:-1] if contains_hidden(c) else c for c in text)


def refuse_to_overwrite(paths: Iterable[Path]) -> None:
    there = [path for path in paths if path.exists()]
    if there:
        more = f" and {len(there) - 1} more are" if len(there) > 1 else " is"
        raise InvalidInput(f"{there[0]}{more} already there; overwrite with --force")
