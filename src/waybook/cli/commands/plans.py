"""`waybook plans`, `waybook status` and `waybook watch`: list plans and show one, once or live.

Watching is read-only, and ends when the plan is completed or failed.
"""

import asyncio
import contextlib
from collections.abc import Callable

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from waybook.app.queries.diagrams import plan_drawing
from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.plans.plan_list import (
    PlanFilter,
    PlanOrder,
    PlanSummary,
    plan_summaries,
    resolve_plan,
)
from waybook.app.request.outbox import review_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.options import database_options, json_option, list_options
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app, start_hint
from waybook.cli.terminal.bars import PLAN_STYLES, segmented_bar
from waybook.cli.terminal.console import plan_usage_lines, resize_event, wait_or_resize
from waybook.cli.terminal.plan_board import Viewport, plan_display
from waybook.core.decision_context import Channel
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.errors import Busy, Unavailable
from waybook.page_address import current_base_url
from waybook.plan.states import PlanStatus
from waybook.settings import Settings

#: On terminals narrower than this, progress is shown as numbers only.
MIN_WIDTH_FOR_BARS = 100
#: Minimum width of plan names; columns on the right are left out to give them this space.
MIN_NAME_WIDTH = 24
#: Columns that are always shown: id, plan and status.
MIN_COLUMNS = 3


@click.command()
@list_options("Include completed and failed plans.")
@database_options
def plans_command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the plans, newest activity first."""
    settings = load_settings(flags)
    plans = asyncio.run(_find(settings, closed_too=closed_too, limit=limit))
    if as_json:
        base_url = current_base_url(settings)
        print_json([_as_json(plan, base_url) for plan in plans])
        return
    console = get_console()
    if plans:
        console.print(_table(plans, console.width))
    else:
        console.print("No open plans." if not closed_too else "There are no plans yet.")
        console.print("Agents create plans with create_research_plan. Try: waybook demo")


async def _find(settings: Settings, *, closed_too: bool, limit: int) -> tuple[PlanSummary, ...]:
    wanted = PlanFilter(order=PlanOrder.ACTIVITY, all=closed_too)
    async with open_app(settings) as here:
        return (await plan_summaries(here.call, wanted, limit=limit)).plans


def _table(plans: tuple[PlanSummary, ...], width: int) -> Table:
    bars = width >= MIN_WIDTH_FOR_BARS
    rows = [_row(plan, bars=bars) for plan in plans]
    heads = ["id", "plan", "status", *(["progress", ""] if bars else ["progress"]), "activity"]
    taken = [
        max(cell_len(head), *(row[n].cell_len for row in rows)) for n, head in enumerate(heads)
    ]
    # Plans are recognized by name: leave out the last columns until names have enough space.
    while _room_for_name(taken, width) < min(taken[1], MIN_NAME_WIDTH) and len(taken) > MIN_COLUMNS:
        taken.pop()
    heads, rows = heads[: len(taken)], [row[: len(taken)] for row in rows]
    taken[1] = min(taken[1], max(1, _room_for_name(taken, width)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for head, cells in zip(heads, taken, strict=True):
        table.add_column(head, no_wrap=True, overflow="ellipsis", width=cells)
    for row in rows:
        table.add_row(*row)
    return table


def _room_for_name(taken: list[int], width: int) -> int:
    return width - sum(taken[:1] + taken[2:]) - 2 * (len(taken) - 1)


def _row(plan: PlanSummary, *, bars: bool) -> list[Text]:
    return [
        Text(short_id(plan.id), style="dim"),
        Text(plan.name),
        PLAN_STYLES[plan.status].text(),
        *([segmented_bar(plan.progress.counts, 20)] if bars else []),
        progress_text(plan),
        Text(format_age(plan.updated_at, plan.now), style="dim"),
    ]


def progress_text(plan: PlanSummary) -> Text:
    progress = plan.progress
    text = Text(f"{progress.done} of {progress.total}")
    return text.append(f", {progress.failed} failed", style="red") if progress.failed else text


def _as_json(plan: PlanSummary, base_url: str) -> dict[str, object]:
    waits, progress = plan.status is PlanStatus.AWAITING_REVIEW, plan.progress
    return {
        "planId": short_id(plan.id),
        "name": plan.name,
        "status": str(plan.status),
        "progress": progress.percent,
        "counts": {
            "done": progress.done,
            "total": progress.total,
            **{str(s): n for s, n in progress.counts.items()},
        },
        **({"reviewUrl": review_url(short_id(plan.id), base_url)} if waits else {}),
        "createdAt": plan.created_at.isoformat(),
        "createdBy": plan.created_by,
        "lastActivityAt": plan.updated_at.isoformat(),
    }


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
        write_exports(plan_drawing(board), exports)
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
        services = here.app
        args = {"planId": plan.id}
        answer = await services.dispatcher.dispatch(
            services.caller(Channel.CLI), "get_plan_status", args
        )
        return answer.body


EVERY_SECONDS = 1.0


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
        with Live(console=console, screen=True, auto_refresh=False) as screen:
            board = await _follow(
                here, board, lambda b: screen.update(_live(b, console), refresh=True)
            )
        console.print(plan_display(board, _frame(console)))


async def _follow(
    here: AppSession, board: PlanDetail, show: Callable[[PlanDetail], None]
) -> PlanDetail:
    resized = resize_event()
    while True:
        show(board)
        if board.is_closed:
            return board
        await wait_or_resize(resized, EVERY_SECONDS)
        # If the database is busy or unavailable, the next refresh may succeed.
        with contextlib.suppress(Busy, Unavailable):
            board = await read_plan_detail(
                here.call, board.plan.id, PlanInclude.BOARD, before=board
            )


def _live(board: PlanDetail, console: Console) -> RenderableType:
    return plan_display(board, Viewport(width=console.width, height=console.height, live=True))


def _frame(console: Console) -> Viewport:
    """Return the size of the terminal without its last line, which is for the prompt."""
    return Viewport(width=console.width, height=console.height - 1)
