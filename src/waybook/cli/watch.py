"""`waybook watch`: a plan, live; it changes nothing, and ends when the plan does."""

import asyncio
import contextlib
from collections.abc import Callable

import click
from rich.console import Console, RenderableType
from rich.live import Live

from waybook.cli.board import Viewport, plan_display
from waybook.cli.inside import AppSession, get_console, load_settings, open_app
from waybook.cli.options import database_options
from waybook.cli.resizing import resize_event, wait_or_resize
from waybook.errors import Busy, Unavailable
from waybook.settings import Settings
from waybook.usecases.find_plans import resolve_plan
from waybook.usecases.watch_plan import PlanOverview, read_plan_overview

EVERY_SECONDS = 1.0


@click.command()
@click.argument("plan", required=False)
@click.option("--once", is_flag=True, help="One picture, then end.")
@database_options
def command(*, plan: str | None, once: bool, **flags: object) -> None:
    """Watch a plan, live.

    PLAN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    Reads only: watching changes nothing.
    """
    settings = load_settings(flags)
    console = get_console()
    live = console.is_terminal and not once
    with contextlib.suppress(KeyboardInterrupt):  # the way to leave
        asyncio.run(_watch(settings, plan, console, live=live))


async def _watch(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        board = await read_plan_overview(here.call, plan.id)
        if not live or board.is_closed:
            console.print(plan_display(board, _frame(console)))
            return
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            board = await _follow(
                here, board, lambda b: screen.update(_live(b, console), refresh=True)
            )
        console.print(plan_display(board, _frame(console)))


async def _follow(
    here: AppSession, board: PlanOverview, show: Callable[[PlanOverview], None]
) -> PlanOverview:
    resized = resize_event()
    while True:
        show(board)
        if board.is_closed:
            return board
        await wait_or_resize(resized, EVERY_SECONDS)
        with contextlib.suppress(Busy, Unavailable):  # the next look may succeed
            board = await read_plan_overview(here.call, board.plan.id, board)


def _live(board: PlanOverview, console: Console) -> RenderableType:
    return plan_display(board, Viewport(width=console.width, height=console.height, live=True))


def _frame(console: Console) -> Viewport:
    """The whole screen; the line after the picture is the prompt's."""
    return Viewport(width=console.width, height=console.height - 1)
