"""`waybook run`: where a run stands, once or live; looking changes nothing."""

import asyncio
import contextlib
import json
from collections.abc import Callable

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from waybook.cli.board import Viewport
from waybook.cli.costs import usage_line
from waybook.cli.inside import AppSession, get_console, load_settings, open_app
from waybook.cli.options import database_options, json_option
from waybook.cli.pictures import export_options, pop_requested_exports, write_exports
from waybook.cli.printing import print_json
from waybook.cli.resizing import resize_event, wait_or_resize
from waybook.cli.run_board import run_display
from waybook.dag.drawing.drawing import Drawing
from waybook.errors import Busy, Unavailable
from waybook.settings import Settings
from waybook.usecases.drawings import run_drawing
from waybook.usecases.find_runs import resolve_run
from waybook.usecases.get_run_progress import load_report
from waybook.usecases.links import run_url
from waybook.usecases.watch_run import RunOverview, read_run_overview

EVERY_SECONDS = 1.0
MAX_INPUT_LENGTH = 300


@click.command()
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Live, until the run is complete.")
@export_options
@json_option
@database_options
def command(*, run: str | None, watch: bool, as_json: bool, **flags: object) -> None:
    """Show where a run stands.

    RUN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    Reads only: looking changes nothing.
    """
    asked = pop_requested_exports(flags)
    settings = load_settings(flags)
    if asked:
        write_exports(asyncio.run(_drawing(settings, run)), asked)
        return
    if as_json:
        body = asyncio.run(_report(settings, run))
        print_json(body, tight=True)
        return
    console = get_console()
    with contextlib.suppress(KeyboardInterrupt):  # the way to leave
        asyncio.run(_show(settings, run, console, live=watch and console.is_terminal))


async def _drawing(settings: Settings, text: str | None) -> Drawing:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        return run_drawing(await read_run_overview(here.call, run.id))


async def _report(settings: Settings, text: str | None) -> object:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        return await load_report(here.call, run_id=run.id)


async def _show(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with open_app(settings) as here:
        run = await resolve_run(here.call, text)
        board = await read_run_overview(here.call, run.id)
        if live and not board.is_closed:
            with Live(console=console, screen=True, auto_refresh=False) as screen:
                board = await _follow(
                    here,
                    board,
                    lambda b: screen.update(run_display(b, _live(console)), refresh=True),
                )
        console.print(run_display(board, Viewport(width=console.width)))
        console.print(_asked(board))
        if board.awaiting is not None:
            place = run_url(board.run.id, settings.base_url)
            console.print(Text.assemble(("page", "dim"), f"   {place}"))
        if board.run.usage.results:
            console.print(usage_line(board.run.usage))


async def _follow(
    here: AppSession, board: RunOverview, show: Callable[[RunOverview], None]
) -> RunOverview:
    resized = resize_event()
    while True:
        show(board)
        if board.is_closed:
            return board
        await wait_or_resize(resized, EVERY_SECONDS)
        with contextlib.suppress(Busy, Unavailable):  # the next look may succeed
            board = await read_run_overview(here.call, board.run.id)


def _live(console: Console) -> Viewport:
    return Viewport(width=console.width, height=console.height, live=True)


def _asked(board: RunOverview) -> Text:
    """What the run was given, or the beginning of it."""
    asked = board.input_text
    text = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
    told = " ".join(text.split())
    shown = told if len(told) <= MAX_INPUT_LENGTH else f"{told[:MAX_INPUT_LENGTH]} …"
    return Text.assemble(("input", "dim"), f"  {shown}")
