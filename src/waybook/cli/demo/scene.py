"""Shared state, actors and screen layout of the demo."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from waybook.app.dispatcher import Dispatcher
from waybook.app.queries.plans.plan import PlanDetail
from waybook.app.queries.runs.run import RunDetail
from waybook.app.registry import TOOLS
from waybook.app.request.request_context import RequestContext
from waybook.application import BasicApplication
from waybook.cli.demo.environment import EventLog, Line, SimulatedClock
from waybook.cli.demo.script import BRANCH_STEPS, PLAN_STEPS
from waybook.cli.terminal import plan_board, run_board
from waybook.cli.terminal.console import Viewport
from waybook.cli.terminal.errors import ToolError
from waybook.cli.terminal.plan_board import PLAN_FIXED_ROWS
from waybook.cli.terminal.run_board import RUN_FIXED_ROWS
from waybook.core.decision_context import Channel


@dataclass
class DemoContext:
    app: BasicApplication
    clock: SimulatedClock
    feed: EventLog
    plan_id: str = ""
    run_id: str = ""
    run_complete: bool = False
    abandoned_jobs: str = ""
    later: list[asyncio.Task[None]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)

    @cached_property
    def dispatcher(self) -> Dispatcher:
        return Dispatcher(self.app.services, self.app.calls)

    @property
    def call(self) -> RequestContext:
        return RequestContext(services=self.app.services, caller=self.app.caller(Channel.CLI))

    def count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1


@dataclass(frozen=True)
class Actor:
    name: str
    scene: DemoContext
    session: str | None = None
    channel: Channel = Channel.MCP

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        caller = replace(self.scene.app.caller(self.channel), user=self.name)
        if self.session is not None and "session_id" in TOOLS[tool].arguments.model_fields:
            arguments["sessionId"] = self.session
        answer = await self.scene.dispatcher.dispatch(caller, tool, arguments)
        if answer.is_error:
            raise ToolError(answer.body["error"])  # type: ignore[arg-type]  # an error is an object
        return answer.body

    def say(self, message: str, *, strong: bool = False) -> None:
        self.scene.feed.say(self.name, message, strong=strong)


#: On wider terminals, the event log is next to the plan or run, not below.
MIN_WIDTH_SIDE_BY_SIDE = 136
FEED_WIDTH = 64
MIN_FEED_LINES = 3
MAX_STEPS = len(PLAN_STEPS) + len(BRANCH_STEPS)
MAX_LINES = 5 + 13


@dataclass(frozen=True, slots=True)
class DisplayedSubject:
    render: Callable[[Viewport], RenderableType]
    lines: int
    max_lines: int


def plan_subject(shown: PlanDetail) -> DisplayedSubject:
    lines = len(shown.plan.steps) + PLAN_FIXED_ROWS
    return DisplayedSubject(
        lambda frame: plan_board.plan_display(shown, frame), lines, MAX_STEPS + PLAN_FIXED_ROWS
    )


def run_subject(shown: RunDetail) -> DisplayedSubject:
    lines = run_board.count_lines(shown) + RUN_FIXED_ROWS
    return DisplayedSubject(
        lambda frame: run_board.run_display(shown, frame), lines, MAX_LINES + RUN_FIXED_ROWS
    )


def build_frame(subject: DisplayedSubject, feed: EventLog, console: Console) -> RenderableType:
    height = console.height - 1
    if console.width >= MIN_WIDTH_SIDE_BY_SIDE:
        return _side_by_side(subject, feed, console.width, height)
    return _stacked(subject, feed, console.width, height)


def _side_by_side(subject: DisplayedSubject, feed: EventLog, width: int, height: int) -> Table:
    tall = min(height, subject.max_lines + 3)
    left = width - FEED_WIDTH - 1
    columns = Table.grid(padding=(0, 1, 0, 0))
    columns.add_column(width=left)
    columns.add_column(width=FEED_WIDTH)
    frame = Viewport(width=left, height=tall, holders=True, filled=True)
    columns.add_row(subject.render(frame), _feed(feed, FEED_WIDTH, tall))
    return columns


def _stacked(subject: DisplayedSubject, feed: EventLog, width: int, height: int) -> Group:
    high = min(subject.max_lines, height - MIN_FEED_LINES)
    above = subject.render(Viewport(width=width, height=high, holders=True, foot=False))
    return Group(above, *_last(feed, height - min(subject.lines, high)))


def _feed(feed: EventLog, width: int, height: int) -> Panel:
    lines = Group(*_last(feed, height - 2))
    title = Text(" events ", style="dim")
    return Panel(lines, title=title, border_style="dim", width=width, height=height)


def _last(feed: EventLog, rows: int) -> list[Text]:
    return [_one_line(line) for line in feed.lines[-max(1, rows) :]]


def _one_line(line: Line) -> Text:
    text = line.text()
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
