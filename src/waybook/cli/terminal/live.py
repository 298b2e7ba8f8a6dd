"""Live view of a plan or run in the terminal, with keys."""

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.console import RenderableType
from rich.live import Live

from waybook.cli.terminal.console import SafeConsole, Viewport
from waybook.cli.terminal.errors import UnreachableError
from waybook.errors import Busy, Unavailable

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]

Board = Mapping[str, Any]

_EVERY_SECONDS: Final = 1.0
_UP: Final = frozenset({"k", "\x1b[A", "\x1bOA"})
_DOWN: Final = frozenset({"j", "\x1b[B", "\x1bOB"})
_ENTER: Final = frozenset({"\r", "\n"})
_QUIT: Final = frozenset({"q", "Q", "\x03"})
_ESCAPE: Final = "\x1b"
#: Matches a key in what a terminal sends; an arrow key is sent as three characters.
_KEY: Final = re.compile(r"\x1b[\[O][A-D]|.", re.DOTALL)


def _pause(seconds: float) -> str:
    time.sleep(seconds)
    return ""


@contextmanager
def reading_keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits some seconds for keys, and returns what the terminal sent.

    Keys are read only from a terminal; otherwise the function only waits.
    """
    if termios is None or not sys.stdin.isatty():
        yield _pause
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    raw = termios.tcgetattr(descriptor)
    raw[3] &= ~(termios.ICANON | termios.ECHO)

    def wait(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 16).decode("latin-1") if ready else ""

    termios.tcsetattr(descriptor, termios.TCSADRAIN, raw)
    try:
        yield wait
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def move(key: str, chosen: int | None, rows: int) -> int | None:
    """Return the chosen row after a key.

    >>> move("j", None, 3), move("j", 2, 3), move("k", 2, 3), move("x", 1, 3)
    (0, 2, 1, 1)
    """
    if not rows:
        return None
    if key in _DOWN:
        return 0 if chosen is None else min(chosen + 1, rows - 1)
    if key in _UP:
        return rows - 1 if chosen is None else max(chosen - 1, 0)
    return chosen


def watch_board(
    read: Callable[[], Board],
    display: Callable[[Board, Viewport], RenderableType],
    show: Callable[[Board, int], RenderableType],
    count: Callable[[Board], int],
) -> Board:
    """On a terminal, redraw the board until it is closed or a key ends it. Return its last state.

    The keys j, k and the arrows choose a row; enter shows the chosen one with `show`.
    """
    console, board = SafeConsole(), read()
    if not console.is_terminal or board["closed"]:
        return board
    chosen: int | None = None
    is_open = False
    with reading_keys() as wait, Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            view = Viewport(width=console.width, height=console.height, live=True, chosen=chosen)
            is_shown = is_open and chosen is not None
            drawn = show(board, chosen or 0) if is_shown else display(board, view)
            screen.update(drawn, refresh=True)
            if board["closed"]:
                return board
            keys = _KEY.findall(wait(_EVERY_SECONDS))
            if not _QUIT.isdisjoint(keys):
                return board
            for key in keys:
                chosen = move(key, chosen, count(board))
                is_open = not is_open if key in _ENTER else is_open and key != _ESCAPE
            if not keys or "r" in keys:
                # If the server is busy or out of reach, the next refresh may succeed.
                with suppress(Busy, Unavailable, UnreachableError):
                    board = read()
