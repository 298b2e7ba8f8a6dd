"""Terminal output of stored text, tables, and live views of plans and runs.

Stored text may contain escape sequences, so it is shown as plain text.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from waybook.core.durations import format_age
from waybook.core.hidden_characters import contains_hidden, escape_hidden
from waybook.core.usage import Totals, format_cost
from waybook.errors import Busy, Unavailable
from waybook.plan.model import Plan
from waybook.plan.progress import shares, warning

#: Terminals with fewer lines show no footer, so that more steps fit.
_LOW_HEIGHT: Final = 12
_MIN_ROWS_FOR_ELLIPSIS: Final = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewport:
    """Size of the terminal and display options. Without a height, all lines are shown."""

    width: int
    height: int | None = None
    live: bool = False
    holders: bool = False
    foot: bool = True

    @property
    def is_low(self) -> bool:
        return self.height is not None and self.height < _LOW_HEIGHT


class SafeConsole(Console):
    """Console that ignores markup and escapes hidden characters."""

    def __init__(self) -> None:
        super().__init__(highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            is_plain = bool(control) or not contains_hidden(text)
            yield segment if is_plain else Segment(escape_hidden(text), style)


def unwrapped(heading: str = "", **options: Any) -> Column:  # noqa: ANN401 - as in rich
    """Return a column whose cells have one line, which is cut if it is too long."""
    return Column(heading, no_wrap=True, **options)


def figures(heading: str = "") -> Column:
    return unwrapped(heading, justify="right")


def plain_table(*columns: Column | str, show_header: bool = True) -> Table:
    """Return a table without borders. More columns can be added to it."""
    return Table(
        *columns,
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="bold",
        show_header=show_header,
    )


def column_widths(headings: Sequence[str], rows: Sequence[Sequence[Text]]) -> list[int]:
    return [
        max(cell_len(heading), *(row[n].cell_len for row in rows))
        for n, heading in enumerate(headings)
    ]


def fitted_table(
    headings: Sequence[str], rows: Sequence[Sequence[Text]], width: int, least: int
) -> Table:
    """Return a table whose second column is cut to fit `width`, but keeps `least` characters."""
    taken = column_widths(headings, rows)
    others = sum(taken) - taken[1] + 2 * len(headings)
    taken[1] = min(taken[1], max(least, width - others))
    columns = [
        unwrapped(heading, width=cells, justify="right" if heading == "version" else "left")
        for heading, cells in zip(headings, taken, strict=True)
    ]
    table = plain_table(*columns)
    for row in rows:
        table.add_row(*row)
    return table


def success(message: str) -> Text:
    return Text.assemble(("✓ ", "green"), message)


def one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


class Board(Protocol):
    @property
    def now(self) -> datetime: ...
    @property
    def is_closed(self) -> bool: ...


def board_panel(frame: Viewport, subject_id: str, parts: Sequence[RenderableType]) -> Panel:
    title = Text(f" waybook · {subject_id} ", style="dim")
    return Panel(Group(*parts), title=title, border_style="dim", width=frame.width)


def board_foot(
    board: Board, frame: Viewport, matters: Sequence[Text], last: tuple[datetime, str] | None
) -> list[Text]:
    """Return the lines below a plan or run: the work to do, and the last event with its time."""
    if not frame.foot or frame.is_low:
        return []
    is_live = frame.live and not board.is_closed
    ending = [Text("   live ●  Ctrl-C to leave", style="dim")] if is_live else []
    summary = f"{format_age(last[0], board.now)}: {last[1]}" if last else ""
    return [one_line(text) for text in (*matters, Text.assemble((summary, "dim"), *ending))]


def visible_rows(items: Sequence[T], rows: int | None, here: int) -> tuple[Sequence[T], int, int]:
    """Return the items that fit around index `here`, and how many are hidden above and below.

    Both numbers are 0 if there are too few lines to show them.
    """
    if rows is None or len(items) <= rows:
        return items, 0, 0
    room = rows - 2 if rows > _MIN_ROWS_FOR_ELLIPSIS else rows
    first = max(0, min(here - room // 3, len(items) - room))
    shown = items[first : first + room]
    return (shown, first, len(items) - first - room) if room < rows else (shown, 0, 0)


_EVERY_SECONDS: Final = 1.0

BoardT = TypeVar("BoardT", bound=Board)


async def watch_board(
    board: BoardT,
    display: Callable[[BoardT, Viewport], RenderableType],
    read: Callable[[BoardT], Awaitable[BoardT]],
) -> BoardT:
    """On a terminal, redraw the board until its plan or run is closed. Return its last state."""
    console = SafeConsole()
    is_final = not console.is_terminal or board.is_closed
    if is_final:
        return board
    resized = asyncio.Event()
    # Some platforms lack SIGWINCH.
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            frame = Viewport(width=console.width, height=console.height, live=True)
            screen.update(display(board, frame), refresh=True)
            if board.is_closed:
                return board
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(resized.wait(), _EVERY_SECONDS)
            resized.clear()
            # If the database is busy or unavailable, the next refresh may succeed.
            with contextlib.suppress(Busy, Unavailable):
                board = await read(board)


def usage_line(took: Totals) -> Text:
    results = f"{took.results:,} result{'s' if took.results != 1 else ''}"
    tokens = f"{took.input_tokens:,} tokens in, {took.output_tokens:,} out"
    cost = format_cost(took.cost_micros)
    return Text.assemble(("usage", "dim"), f"     {tokens}, {cost}, reported by {results}")


def plan_usage_lines(plan: Plan) -> list[Text]:
    lines = [usage_line(plan.usage)] if plan.usage.results else []
    for part in shares(plan.budget, plan.usage) if plan.budget is not None else ():
        is_tokens = part.name == "tokens"
        used = f"{part.used:,}" if is_tokens else format_cost(part.used)
        of = f"{part.of:,} tokens" if is_tokens else format_cost(part.of)
        share = f"{used} of {of}, {part.percent} %", "yellow" if warning(part) else ""
        lines.append(Text.assemble(("budget", "dim"), "    ", share))
    return lines
