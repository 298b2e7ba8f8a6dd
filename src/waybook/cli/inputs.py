"""Reads command input from a file or stdin, with a size limit.

Pipes and devices can be endless, so the limit is enforced while reading.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Final

import click

from waybook.errors import InvalidInput, TooLarge

MEBIBYTE: Final = 1024 * 1024
#: A snapshot file with 100,000 jobs takes about 20 MiB.
MAX_SNAPSHOT_BYTES: Final = 32 * MEBIBYTE
#: Maximum length of a line that is skipped because it is too long. A longer line is an error.
MAX_SKIPPED_LINE_BYTES: Final = 256 * MEBIBYTE
#: An argument read from standard input has the same size limit as a tool call.
MAX_ARGUMENT_BYTES: Final = MEBIBYTE
STDIN: Final = "-"
MAX_MODELS: Final = 1000


def read_all(file: str, most: int) -> bytes:
    """Return the whole content of a file or stdin.

    Raises:
        TooLarge: the content has more than `most` bytes.
        BadParameter: the file cannot be read.
    """
    return check_size(read_prefix(file, most + 1), most)


def read_prefix(file: str, most: int) -> bytes:
    with _opened(file) as source:
        return source.read(most)


def read_lines(file: str, most: int) -> Iterator[bytes]:
    """Yield the lines of the input. A line that is too long is cut.

    Raises:
        BadParameter: the input cannot be read.
        TooLarge: the rest of a cut line is too long to be skipped.
    """
    with _opened(file) as source:
        while line := source.readline(most + 1):
            yield line.rstrip(b"\r\n")
            if not line.endswith(b"\n"):
                _skip_to_next(source)


def _skip_to_next(source: IO[bytes]) -> None:
    for _ in range(MAX_SKIPPED_LINE_BYTES // MEBIBYTE):
        rest = source.readline(MEBIBYTE)
        if not rest or rest.endswith(b"\n"):
            return
    raise TooLarge("a line is too long; nothing after it was read", limit=MAX_SKIPPED_LINE_BYTES)


def check_size(text: bytes, most: int) -> bytes:
    if len(text) > most:
        raise TooLarge(f"the input is longer than the limit of {most:,} bytes", limit=most)
    return text


def read_argument(argument: str, param_hint: str) -> str:
    if argument != STDIN:
        return argument
    try:
        return read_all(STDIN, MAX_ARGUMENT_BYTES).decode()
    except TooLarge as error:
        raise click.BadParameter(error.message, param_hint=param_hint) from None
    except UnicodeDecodeError:
        raise click.BadParameter("this is not UTF-8", param_hint=param_hint) from None


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    try:
        with click.open_file(file, "rb") as source:
            yield source
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None


def read_time(text: str) -> datetime:
    """Parse a timestamp. Without a time zone, it is in UTC.

    >>> read_time("2030-01-31 08:00").isoformat()
    '2030-01-31T08:00:00+00:00'

    Raises:
        InvalidInput: the text is not a timestamp.
    """
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def read_models(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse model names separated by commas. For a number, generate that many names."""
    if value is None:
        return ()
    if value.isdecimal() and value.isascii() and len(value) <= len(str(MAX_MODELS)):
        if not 0 < int(value) <= MAX_MODELS:
            raise click.BadParameter(f"the number of models must be 1 to {MAX_MODELS}")
        return tuple(f"model-{number}" for number in range(1, int(value) + 1))
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise click.BadParameter("a name is missing between the commas")
    return names
