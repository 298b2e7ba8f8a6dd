"""Terminal output of stored text, detection of resizing, and usage lines.

Stored text may contain escape sequences, so it is shown as plain text.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from waybook.core.hidden_characters import contains_hidden, escape_hidden
from waybook.core.usage import Totals, format_cost
from waybook.errors import Busy, Unavailable
from waybook.plan.model import Plan
from waybook.plan.progress import BudgetShare, shares, warning

#: Lower terminals show no footer, so that more steps fit.
LOW_HEIGHT: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewport:
    """Size of the terminal and display options. Without a height, there is no limit."""

    width: int
    height: int | None = None
    live: bool = False
    holders: bool = False
    foot: bool = True
    filled: bool = False

    @property
    def is_low(self) -> bool:
        return self.height is not None and self.height < LOW_HEIGHT


def live_viewport(console: Console) -> Viewport:
    return Viewport(width=console.width, height=console.height, live=True)


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


class Board(Protocol):
    @property
    def is_closed(self) -> bool: ...


EVERY_SECONDS: Final = 1.0

B = TypeVar("B", bound=Board)


async def show_live(
    console: Console,
    board: B,
    display: Callable[[B], RenderableType],
    read: Callable[[B], Awaitable[B]],
) -> B:
    resized = resize_event()
    with Live(console=console, screen=True, auto_refresh=False) as screen:
        while True:
            screen.update(display(board), refresh=True)
            if board.is_closed:
                return board
            await wait_or_resize(resized, EVERY_SECONDS)
            # If the database is busy or unavailable, the next refresh may succeed.
            with contextlib.suppress(Busy, Unavailable):
                board = await read(board)


def resize_event() -> asyncio.Event:
    resized = asyncio.Event()
    # Some platforms lack SIGWINCH.
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    return resized


async def wait_or_resize(resized: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(resized.wait(), seconds)
    resized.clear()


def usage_line(took: Totals) -> Text:
    results = f"{took.results:,} result{'s' if took.results != 1 else ''}"
    tokens = f"{took.input_tokens:,} tokens in, {took.output_tokens:,} out"
    cost = format_cost(took.cost_micros)
    return Text.assemble(("usage", "dim"), f"     {tokens}, {cost}, reported by {results}")


def plan_usage_lines(plan: Plan) -> list[Text]:
    lines = [usage_line(plan.usage)] if plan.usage.results else []
    if plan.budget is not None:
        lines += [_share_line(part) for part in shares(plan.budget, plan.usage)]
    return lines


def _share_line(part: BudgetShare) -> Text:
    tokens = part.name == "tokens"
    used = f"{part.used:,}" if tokens else format_cost(part.used)
    of = f"{part.of:,} tokens" if tokens else format_cost(part.of)
    style = "yellow" if warning(part) else ""
    return Text.assemble(("budget", "dim"), "    ", (f"{used} of {of}, {part.percent} %", style))
