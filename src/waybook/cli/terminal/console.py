"""A terminal that shows stored texts and obeys none of them.

What somebody stored may have escape sequences in it, characters that turn text around, or the
marks that rich reads as colours and links. Here it all is text.

A terminal that changes its size is drawn anew at once, not with the next look.

What work took, in a line: for people who look at a plan, a run or all of them.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from waybook.core.hidden_characters import contains_hidden, escape_hidden
from waybook.core.usage import Totals, format_cost
from waybook.plan.model import Plan
from waybook.plan.progress import BudgetShare, shares, warning


class SafeConsole(Console):
    """Where people read: strings are text, and what nobody could see is written out."""

    def __init__(self) -> None:
        """A terminal on stdout."""
        super().__init__(highlight=False, markup=False, emoji=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is drawn, in pieces; controls that are rich's own are no texts."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            is_plain = bool(control) or not contains_hidden(text)
            yield segment if is_plain else Segment(escape_hidden(text), style)


def resize_event() -> asyncio.Event:
    """An event that is set whenever the terminal has another size."""
    resized = asyncio.Event()
    with contextlib.suppress(AttributeError, NotImplementedError, ValueError):  # not everywhere
        asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, resized.set)
    return resized


async def wait_or_resize(resized: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until the terminal has another size."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(resized.wait(), seconds)
    resized.clear()


def usage_line(took: Totals) -> Text:
    """What a plan or a run took: "usage  1,200 tokens in, 300 out, $0.45, told by 3 results"."""
    results = f"{took.results:,} result{'s' if took.results != 1 else ''}"
    tokens = f"{took.input_tokens:,} tokens in, {took.output_tokens:,} out"
    cost = format_cost(took.cost_micros)
    return Text.assemble(("usage", "dim"), f"     {tokens}, {cost}, told by {results}")


def plan_usage_lines(plan: Plan) -> list[Text]:
    """What a plan took, and how much of its budget that is, where there is anything to say."""
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
