"""`waybook status` and `waybook watch`: show a plan once or live."""

import asyncio
import contextlib

import click
from rich.console import Console
from rich.text import Text

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.app.request.page_urls import review_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app, start_hint
from waybook.cli.terminal.console import Viewport, live_viewport, plan_usage_lines, show_live
from waybook.cli.terminal.plan_board import plan_display
from waybook.core.short_ids import short_id
from waybook.page_address import current_base_url
from waybook.settings import Settings


@click.command()
@click.argument("plan", required=False)
@export_options
@json_option
@database_options
def status_command(*, plan: str | None, as_json: bool, **flags: object) -> None:
    """Show the status of a plan.

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open.
    """
    exports = pop_requested_exports(flags)
    settings = load_settings(flags)
    if as_json and not exports:
        body = asyncio.run(_answer(settings, plan))
        print_json(body, tight=True)
        return
    board = asyncio.run(_look(settings, plan))
    if exports:
        write_exports(load("waybook.app.queries.diagrams:plan_drawing")(board), exports)
        return
    console = get_console()
    console.print(plan_display(board, Viewport(width=console.width)))
    console.print(Text.assemble(("question", "dim"), f"  {board.brief.question}"))
    if board.review is not None:
        place = review_url(short_id(board.plan.id), current_base_url(settings))
        console.print(Text.assemble(("decide", "dim"), f"    {place}"))
        if hint := start_hint(settings):
            console.print(Text(f"          {hint}", style="dim"))
    for line in plan_usage_lines(board.plan):
        console.print(line)


async def _look(settings: Settings, text: str | None) -> PlanDetail:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        return await read_plan_detail(here.call, plan.id, PlanInclude.BOARD)


async def _answer(settings: Settings, text: str | None) -> dict[str, object]:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        return (await here.call_tool("get_plan_status", {"planId": plan.id})).body


@click.command()
@click.argument("plan", required=False)
@click.option("--once", is_flag=True, help="Print once and exit.")
@database_options
def watch_command(*, plan: str | None, once: bool, **flags: object) -> None:
    """Watch a plan live.

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open.
    Read-only.
    """
    settings = load_settings(flags)
    console = get_console()
    live = console.is_terminal and not once
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command without an error.
        asyncio.run(_watch(settings, plan, console, live=live))


async def _watch(settings: Settings, text: str | None, console: Console, *, live: bool) -> None:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        board = await read_plan_detail(here.call, plan.id, PlanInclude.BOARD)
        if not live or board.is_closed:
            console.print(plan_display(board, _frame(console)))
            return
        board = await show_live(
            console,
            board,
            lambda b: plan_display(b, live_viewport(console)),
            lambda b: read_plan_detail(here.call, b.plan.id, PlanInclude.BOARD, before=b),
        )
        console.print(plan_display(board, _frame(console)))


def _frame(console: Console) -> Viewport:
    """Return the size of the terminal without its last line, which is for the prompt."""
    return Viewport(width=console.width, height=console.height - 1)
