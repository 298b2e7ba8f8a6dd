"""`waybook run`: where a run stands, once or live; looking changes nothing."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from waybook.cli.board import Frame
from waybook.cli.costs import usage_line
from waybook.cli.inside import Inside, inside, quiet_settings, the_console
from waybook.cli.options import as_json, database_options
from waybook.cli.pictures import asked_pictures, picture_options, write_pictures
from waybook.cli.printing import say_json
from waybook.cli.resizing import a_while_or, noticed_resizing
from waybook.cli.run_board import picture
from waybook.dag.drawing.drawing import Drawing
from waybook.errors import Busy, Unavailable
from waybook.settings import Settings
from waybook.usecases.drawings import run_drawing
from waybook.usecases.find_runs import meant_run
from waybook.usecases.get_run_progress import progress_of
from waybook.usecases.links import run_url
from waybook.usecases.watch_run import RunBoard, watch_run

EVERY_SECONDS = 1.0
LONGEST_INPUT = 300


@click.command()
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Live, until the run is complete.")
@picture_options
@as_json
@database_options
def command(*, run: str | None, watch: bool, as_json: bool, **flags: object) -> None:
    """Show where a run stands.

    RUN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    Reads only: looking changes nothing.
    """
    asked = asked_pictures(flags)
    settings = quiet_settings(flags)
    if asked:
        write_pictures(asyncio.run(_drawing(settings, run)), asked)
        return
    if as_json:
        body = asyncio.run(_report(settings, run))
        say_json(body, tight=True)
        return
    console = the_console()
    with contextlib.suppress(KeyboardInterrupt):  # the way to leave
        asyncio.run(_show(settings, run, console, live=watch and console.is_terminal))


async def _drawing(settings: Settings, text: str | None) -> Drawing:
    async with inside(settings) as here:
        run = await meant_run(here.call, text)
        return run_drawing(await watch_run(here.call, run.id))


async def _report(settings: Settings, text: str | None) -> object:
    async with inside(settings) as here:
        run = await meant_run(here.call, text)
        return await progress_of(here.call, run_id=run.id)


async def _show(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with inside(settings) as here:
        run = await meant_run(here.call, text)
        board = await watch_run(here.call, run.id)
        if live and not board.over:
            with Live(console=console, screen=True, auto_refresh=False) as screen:
                board = await _follow(
                    here, board, lambda b: screen.update(picture(b, _live(console)), refresh=True)
                )
        console.print(picture(board, Frame(width=console.width)))
        console.print(_asked(board))
        if board.awaiting is not None:
            place = run_url(board.run.id, settings.base_url)
            console.print(Text.assemble(("page", "dim"), f"   {place}"))
        if board.run.usage.results:
            console.print(usage_line(board.run.usage))


async def _follow(here: Inside, board: RunBoard, show: Callable[[RunBoard], None]) -> RunBoard:
    resized = noticed_resizing()
    while True:
        show(board)
        if board.over:
            return board
        await a_while_or(resized, EVERY_SECONDS)
        with contextlib.suppress(Busy, Unavailable):  # the next look may succeed
            board = await watch_run(here.call, board.run.id)


def _live(console: Console) -> Frame:
    return Frame(width=console.width, height=console.height, live=True)


def _asked(board: RunBoard) -> Text:
    """What the run was given, or the beginning of it."""
    asked = board.asked
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
    told = " ".join(text.split())
    shown = told if len(told) <= LONGEST_INPUT else f"{told[:LONGEST_INPUT]} …"
    return Text.assemble(("input", "dim"), f"  {shown}")
