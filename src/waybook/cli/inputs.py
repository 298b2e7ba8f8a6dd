"""What a command is given to read: a file or stdin, and no more of it than the command takes.

A pipe may go on for ever, and so does a device: the bound holds while it is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

import click

from waybook.errors import TooLarge

MEBIBYTE: Final = 1024 * 1024
#: A hundred thousand jobs are some twenty of these.
MAX_SNAPSHOT_BYTES: Final = 32 * MEBIBYTE
#: A line that is too long is left out, if it ends at all.
MAX_SKIPPED_LINE_BYTES: Final = 256 * MEBIBYTE
#: What somebody types or pipes in is as large as a body may be.
MAX_ARGUMENT_BYTES: Final = MEBIBYTE
STDIN: Final = "-"


def read_all(file: str, most: int) -> bytes:
    """All of a file, or of stdin.

    Raises:
        TooLarge: it has more bytes than so many.
        BadParameter: it cannot be read.
    """
    return check_size(read_prefix(file, most + 1), most)


def read_prefix(file: str, most: int) -> bytes:
    """So many bytes of a file, or all if it has less.

    Raises:
        BadParameter: it cannot be read.
    """
    with _opened(file) as source:
        return source.read(most)


def read_lines(file: str, most: int) -> Iterator[bytes]:
    """The lines; of one that is longer than so many bytes, one byte more than that.

    Raises:
        BadParameter: they cannot be read.
        TooLarge: one does not come to an end.
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
    raise TooLarge(
        "a line does not come to an end; nothing behind it was read", limit=MAX_SKIPPED_LINE_BYTES
    )


def check_size(text: bytes, most: int) -> bytes:
    """The same text.

    Raises:
        TooLarge: it has more bytes than so many.
    """
    if len(text) > most:
        raise TooLarge(f"this is longer than {most:,} bytes, and no more are read", limit=most)
    return text


def read_argument(given: str, param_hint: str) -> str:
    """The argument of a command, or what stdin says if it is a dash.

    Raises:
        BadParameter: it cannot be read, or is longer than anything that is asked there.
    """
    if given != STDIN:
        return given
    try:
        return read_all(STDIN, MAX_ARGUMENT_BYTES).decode()
    except TooLarge as error:
        raise click.BadParameter(error.message, param_hint=param_hint) from None
    except UnicodeDecodeError:
        raise click.BadParameter("this is not UTF-8", param_hint=param_hint) from None


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    """The file, or stdin; whatever cannot be read of it is told with its name."""
    try:
        with click.open_file(file, "rb") as source:
            yield source
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="FILE") from None
