"""Terminal output of stored text, tables, and views of plans and runs.

Stored text may contain escape sequences, so it is shown as plain text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from waybook.core.durations import format_age, format_duration
from waybook.core.hidden_characters import contains_hidden, escape_hidden
from waybook.core.usage import format_cost

#: Terminals with fewer lines show no footer, so that more steps fit.
_LOW_HEIGHT: Final = 12
_MIN_ROWS_FOR_ELLIPSIS: Final = 3
#: Lines of a plan or run besides its rows and foot: the frame, three lines, and the headings.
FIXED_ROWS: Final = 6
#: Space between two columns.
GAP: Final = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewport:
    """Size of the terminal and display options. Without a height, all lines are shown."""

    width: int
    height: int | None = None
    live: bool = False
    holders: bool = False
    foot: bool = True
    #: Place of the row that is chosen with keys.
    chosen: int | None = None

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
        padding=(0, GAP, 0, 0),
        pad_edge=False,
        header_style="bold",
        show_header=show_header,
    )


def success(message: str) -> Text:
    return Text.assemble(("✓ ", "green"), message)


def one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


Board = Mapping[str, Any]


def seconds_text(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))


class Line(NamedTuple):
    """Row of a plan or run, with a cell for each column."""

    cells: Sequence[Text]
    is_current: bool = False


def draw_board(
    board: Board,
    frame: Viewport,
    head: Sequence[Text],
    columns: Mapping[str, int],
    lines: Sequence[Line],
    matters: Sequence[Text],
) -> RenderableType:
    """Return a plan or run, which is never higher than the frame.

    `columns` has the width of each column by its heading; those of width 0 are left out.
    """
    if frame.height is not None and frame.height <= FIXED_ROWS:
        return Group(*head[: frame.height])
    foot = _foot(board, frame, matters)
    rows = None if frame.height is None else frame.height - FIXED_ROWS - len(foot)
    here = next((place for place, line in enumerate(lines) if line.is_current), 0)
    here = here if frame.chosen is None else frame.chosen
    shown, above, below = visible_rows([*enumerate(lines)], rows, here)
    widths = [(name, width) for name, width in columns.items() if width]
    table = plain_table(*(unwrapped(name, width=width) for name, width in widths))
    if above:
        table.add_row(Text(f"… {above} above", style="dim"))
    for place, line in shown:
        cells = zip(line.cells, columns.values(), strict=True)
        style = "reverse" if place == frame.chosen else None
        table.add_row(*(cell for cell, width in cells if width), style=style)
    if below:
        table.add_row(Text(f"… {below} below", style="dim"))
    title = Text(f" waybook · {board.get('planId') or board['runId']} ", style="dim")
    return Panel(Group(*head, table, *foot), title=title, border_style="dim", width=frame.width)


def _foot(board: Board, frame: Viewport, matters: Sequence[Text]) -> list[Text]:
    """Return the lines below a plan or run: the work to do, and the last event with its time."""
    if not frame.foot or frame.is_low:
        return []
    is_live = frame.live and not board["closed"]
    ending = [Text("   live ●  q quit · r refresh · j/k choose · enter show", style="dim")]
    last, summary = board["lastEvent"], ""
    if last:
        at, now = (datetime.fromisoformat(text) for text in (last["at"], board["now"]))
        summary = f"{format_age(at, now)}: {last['text']}"
    line = Text.assemble((summary, "dim"), *(ending if is_live else []))
    return [one_line(text) for text in (*matters, line)]


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


def usage_line(usage: Board) -> Text:
    count = usage["results"]
    results = f"{count:,} result{'s' if count != 1 else ''}"
    tokens = f"{usage['inputTokens']:,} tokens in, {usage['outputTokens']:,} out"
    cost = format_cost(round(usage["costUsd"] * 1_000_000))
    return Text.assemble(("usage", "dim"), f"     {tokens}, {cost}, reported by {results}")


def usage_lines(board: Board) -> list[Text]:
    """Return the usage of a plan or run, and its share of the budget, if there is any."""
    lines = [usage_line(board["usage"])] if board["usage"]["results"] else []
    budget = board.get("budget") or {}
    for name, format_amount in (("tokens", "{:,} tokens".format), ("costUsd", "${:,.2f}".format)):
        if part := budget.get(name):
            used, of = (
                format_amount(part["used"]).removesuffix(" tokens"),
                format_amount(part["of"]),
            )
            share = f"{used} of {of}, {part['percent']} %", "yellow" if "warning" in budget else ""
            lines.append(Text.assemble(("budget", "dim"), "    ", share))
    return lines
