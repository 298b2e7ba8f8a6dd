"""How the demo looks: the plan and the feed, side by side where there is room, else stacked."""

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.cli.board import AROUND_STEPS, Frame, picture
from waybook.cli.demo.feed import Feed, Line
from waybook.cli.demo.story import ADDED, STEPS
from waybook.usecases.watch_plan import Board

#: From which width on the feed stands beside the plan.
SIDE_BY_SIDE = 136
FEED_WIDTH = 64
FEWEST_LINES = 3
#: How many steps the story's plan comes to have.
MOST_STEPS = len(STEPS) + len(ADDED)


def stage(board: Board, feed: Feed, console: Console) -> RenderableType:
    """One frame: never higher than the screen."""
    height = console.height - 1
    if console.width >= SIDE_BY_SIDE:
        return _side_by_side(board, feed, console.width, height)
    return _stacked(board, feed, console.width, height)


def _side_by_side(board: Board, feed: Feed, width: int, height: int) -> Table:
    tall = min(height, MOST_STEPS + AROUND_STEPS + 3)
    left = width - FEED_WIDTH - 1
    columns = Table.grid(padding=(0, 1, 0, 0))
    columns.add_column(width=left)
    columns.add_column(width=FEED_WIDTH)
    frame = Frame(width=left, height=tall, holders=True, filled=True)
    columns.add_row(picture(board, frame), _feed(feed, FEED_WIDTH, tall))
    return columns


def _stacked(board: Board, feed: Feed, width: int, height: int) -> Group:
    high = min(MOST_STEPS + AROUND_STEPS, height - FEWEST_LINES)
    above = picture(board, Frame(width=width, height=high, holders=True, foot=False))
    shown = min(len(board.plan.steps) + AROUND_STEPS, high)
    return Group(above, *_last(feed, height - shown))


def _feed(feed: Feed, width: int, height: int) -> Panel:
    lines = Group(*_last(feed, height - 2))
    title = Text(" what happens ", style="dim")
    return Panel(lines, title=title, border_style="dim", width=width, height=height)


def _last(feed: Feed, rows: int) -> list[Text]:
    return [_one_line(line) for line in feed.lines[-max(1, rows) :]]


def _one_line(line: Line) -> Text:
    text = line.text()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
