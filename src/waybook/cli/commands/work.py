"""Commands that show a plan or a run: `status`, `watch` and `run`."""

import contextlib
import json

import click
from rich.text import Text

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.queries.work_list import resolve_plan, resolve_run
from waybook.app.request.caller import review_url, run_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app, start_hint
from waybook.cli.terminal.console import Viewport, plan_usage_lines, usage_line, watch_board
from waybook.cli.terminal.plan_board import plan_display
from waybook.cli.terminal.run_board import run_display
from waybook.page_address import current_base_url
from waybook.settings import Settings

_MAX_INPUT_LENGTH = 300


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

        async def answer(here: AppSession) -> object:
            plan_id = (await resolve_plan(here.call, plan)).id
            return (await here.call_tool("get_plan_status", {"planId": plan_id})).body

        print_json(run_in_app(settings, answer), tight=True)
        return
    board = run_in_app(settings, lambda here: _read_plan(here, plan))
    if exports:
        write_exports(load("waybook.app.queries.diagrams:plan_drawing")(board), exports)
        return
    console = get_console()
    console.print(plan_display(board, Viewport(width=console.width)))
    console.print(Text.assemble(("question", "dim"), f"  {board.brief.question}"))
    if board.review is not None:
        place = review_url(board.plan.id, current_base_url(settings))
        _print_place("decide    ", place, settings)
    for line in plan_usage_lines(board.plan):
        console.print(line)


def _print_place(label: str, place: str, settings: Settings) -> None:
    console = get_console()
    console.print(Text.assemble((label, "dim"), place))
    if hint := start_hint(settings):
        console.print(Text(f"{' ' * len(label)}{hint}", style="dim"))


async def _read_plan(here: AppSession, text: str | None) -> PlanDetail:
    plan = await resolve_plan(here.call, text)
    return await read_plan_detail(here.call, plan.id, PlanInclude.BOARD)


async def _read_run(here: AppSession, text: str | None, include: RunInclude) -> RunDetail:
    run = await resolve_run(here.call, text)
    return await read_run_detail(here.call, run.id, include)


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

    async def watch(here: AppSession) -> PlanDetail:
        board = await _read_plan(here, plan)
        if once:
            return board
        return await watch_board(
            board,
            plan_display,
            lambda b: read_plan_detail(here.call, b.plan.id, PlanInclude.BOARD, before=b),
        )

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command without an error.
        board = run_in_app(settings, watch)
        # The last line of the terminal is for the prompt.
        console.print(plan_display(board, Viewport(width=console.width, height=console.height - 1)))


@click.command()
@click.argument("run", required=False)
@click.option("--watch", is_flag=True, help="Refresh live until the run completes.")
@export_options
@json_option
@database_options
def run_command(*, run: str | None, watch: bool, as_json: bool, **flags: object) -> None:
    """Show the progress of a run.

    RUN is an id, an id prefix, or part of the name; optional if only one run is open.
    Read-only.
    """
    exports = pop_requested_exports(flags)
    settings = load_settings(flags)
    if exports or as_json:
        board = run_in_app(settings, lambda here: _read_run(here, run, RunInclude.NOTHING))
        if exports:
            write_exports(load("waybook.app.queries.diagrams:run_drawing")(board), exports)
        else:
            print_json(board.full_report, tight=True)
        return
    console = get_console()

    async def read(here: AppSession) -> RunDetail:
        board = await _read_run(here, run, RunInclude.BOARD)
        if not watch:
            return board
        return await watch_board(
            board, run_display, lambda b: read_run_detail(here.call, b.run.id, RunInclude.BOARD)
        )

    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C ends the command without an error.
        board = run_in_app(settings, read)
        console.print(run_display(board, Viewport(width=console.width)))
        text = board.input_text
        line = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        line = " ".join(line.split())
        cut = f"{line[:_MAX_INPUT_LENGTH]} …" if len(line) > _MAX_INPUT_LENGTH else line
        console.print(Text.assemble(("input", "dim"), f"  {cut}"))
        if board.awaiting is not None:
            place = run_url(board.run.id, current_base_url(settings))
            _print_place("page   ", place, settings)
        if board.run.usage.results:
            console.print(usage_line(board.run.usage))
