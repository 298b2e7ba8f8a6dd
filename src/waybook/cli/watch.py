"""`waybook watch`: a plan, live; it changes nothing, and ends when the plan does."""

import asyncio
import contextlib
from collections.abc import Callable

import click
from rich.console import Console, RenderableType
from rich.live import Live

from waybook.cli.board import Frame, picture
from waybook.cli.inside import Inside, inside, quiet_settings, the_console
from waybook.cli.options import database_options
from waybook.cli.resizing import a_while_or, noticed_resizing
from waybook.errors import Busy, Unavailable
from waybook.settings import Settings
from waybook.usecases.find_plans import meant_plan
from waybook.usecases.watch_plan import Board, watch_plan

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
    settings = quiet_settings(flags)
    console = the_console()
    live = console.is_terminal and not once
    with contextlib.suppress(KeyboardInterrupt):  # the way to leave
        asyncio.run(_watch(settings, plan, console, live=live))


async def _watch(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with inside(settings) as here:
        plan = await meant_plan(here.call, text)
        board = await watch_plan(here.call, plan.id)
        if not live or board.over:
            console.print(picture(board, _frame(console)))
            return
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            board = await _follow(
                here, board, lambda b: screen.update(_live(b, console), refresh=True)
            )
        console.print(picture(board, _frame(console)))


async def _follow(here: Inside, board: Board, show: Callable[[Board], None]) -> Board:
    resized = noticed_resizing()
    while True:
        show(board)
        if board.over:
            return board
        await a_while_or(resized, EVERY_SECONDS)
        with contextlib.suppress(Busy, Unavailable):  # the next look may succeed
            board = await watch_plan(here.call, board.plan.id, board)


def _live(board: Board, console: Console) -> RenderableType:
    return picture(board, Frame(width=console.width, height=console.height, live=True))


def _frame(console: Console) -> Frame:
    """The whole screen; the line after the picture is the prompt's."""
    return Frame(width=console.width, height=console.height - 1)
