"""How the demo looks: what is worked on and the feed, side by side where there is room."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.cli import board, run_board
from waybook.cli.board import AROUND_STEPS, Frame
from waybook.cli.demo.feed import Feed, Line
from waybook.cli.demo.story import ADDED, STEPS
from waybook.cli.run_board import AROUND_STAGES
from waybook.usecases.watch_plan import Board
from waybook.usecases.watch_run import RunBoard

#: From which width on the feed stands beside the picture.
SIDE_BY_SIDE = 136
FEED_WIDTH = 64
FEWEST_LINES = 3
#: How many steps the story's plan comes to have.
MOST_STEPS = len(STEPS) + len(ADDED)
#: The stages of the story's run, and the steps of its longest one.
MOST_LINES = 5 + 13


@dataclass(frozen=True, slots=True)
class Subject:
    """What is shown: how it is drawn, how high it is now, and how high it will be at most."""

    drawn: Callable[[Frame], RenderableType]
    lines: int
    most: int


def plan_subject(shown: Board) -> Subject:
    """A plan to look at."""
    lines = len(shown.plan.steps) + AROUND_STEPS
    return Subject(lambda frame: board.picture(shown, frame), lines, MOST_STEPS + AROUND_STEPS)


def run_subject(shown: RunBoard) -> Subject:
    """A run to look at."""
    lines = run_board.lines_of(shown) + AROUND_STAGES
    return Subject(lambda frame: run_board.picture(shown, frame), lines, MOST_LINES + AROUND_STAGES)


def stage(subject: Subject, feed: Feed, console: Console) -> RenderableType:
    """One frame: never higher than the screen."""
    height = console.height - 1
    if console.width >= SIDE_BY_SIDE:
        return _side_by_side(subject, feed, console.width, height)
    return _stacked(subject, feed, console.width, height)


def _side_by_side(subject: Subject, feed: Feed, width: int, height: int) -> Table:
    tall = min(height, subject.most + 3)
    left = width - FEED_WIDTH - 1
    columns = Table.grid(padding=(0, 1, 0, 0))
    columns.add_column(width=left)
    columns.add_column(width=FEED_WIDTH)
    frame = Frame(width=left, height=tall, holders=True, filled=True)
    columns.add_row(subject.drawn(frame), _feed(feed, FEED_WIDTH, tall))
    return columns


def _stacked(subject: Subject, feed: Feed, width: int, height: int) -> Group:
    high = min(subject.most, height - FEWEST_LINES)
    above = subject.drawn(Frame(width=width, height=high, holders=True, foot=False))
    return Group(above, *_last(feed, height - min(subject.lines, high)))


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
