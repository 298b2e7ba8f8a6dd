"""`waybook plans`, `waybook status` and `waybook watch`: list plans, and show one once or live."""

import contextlib
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.app.queries.plans.plan import PlanDetail, PlanInclude, read_plan_detail
from waybook.app.queries.work_list import (
    ListOrder,
    PlanFilter,
    PlanSummary,
    plan_summaries,
    resolve_plan,
)
from waybook.app.request.page_urls import review_url
from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option, list_options
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app, start_hint
from waybook.cli.terminal.bars import PLAN_STYLES, segmented_bar
from waybook.cli.terminal.console import (
    Viewport,
    column_widths,
    fitted_table,
    live_viewport,
    plan_usage_lines,
    show_live,
)
from waybook.cli.terminal.plan_board import plan_display
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.page_address import current_base_url
from waybook.plan.model import PlanState

MIN_WIDTH_FOR_BARS = 100
#: Columns on the right are left out until plan names have this width.
MIN_NAME_WIDTH = 24
MIN_COLUMNS = 3


@click.command()
@list_options("Include completed and failed plans.")
@database_options
def plans_command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the plans, newest activity first."""
    settings = load_settings(flags)
    wanted = PlanFilter(order=ListOrder.ACTIVITY, all=closed_too)
    plans = run_in_app(settings, lambda here: plan_summaries(here.call, wanted, limit=limit)).plans
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


def _table(plans: Sequence[PlanSummary], width: int) -> Table:
    bars = width >= MIN_WIDTH_FOR_BARS
    rows = [_row(plan, bars=bars) for plan in plans]
    heads = ["id", "plan", "status", *(["progress", ""] if bars else ["progress"]), "activity"]
    taken = column_widths(heads, rows)
    # People recognize plans by name, so the last columns are left out until names have enough
    # space.
    while (
        width - sum(taken) + taken[1] - 2 * (len(taken) - 1) < min(taken[1], MIN_NAME_WIDTH)
        and len(taken) > MIN_COLUMNS
    ):
        taken.pop()
    rows = [row[: len(taken)] for row in rows]
    # The last column needs no space behind it.
    return fitted_table(heads[: len(taken)], rows, width + 2, least=1)


def _row(plan: PlanSummary, *, bars: bool) -> list[Text]:
    progress = plan.progress
    progress_text = Text(f"{progress.done} of {progress.total}")
    if progress.failed:
        progress_text.append(f", {progress.failed} failed", style="red")
    return [
        Text(short_id(plan.id), style="dim"),
        Text(plan.name),
        PLAN_STYLES[plan.state].text(),
        *([segmented_bar(plan.progress.counts, 20)] if bars else []),
        progress_text,
        Text(format_age(plan.updated_at, plan.now), style="dim"),
    ]


def _as_json(plan: PlanSummary, base_url: str) -> dict[str, object]:
    waits, progress = plan.state is PlanState.AWAITING_REVIEW, plan.progress
    return {
        "planId": short_id(plan.id),
        "name": plan.name,
        "status": str(plan.state),
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

        async def answer(here: AppSession) -> object:
            plan_id = (await resolve_plan(here.call, plan)).id
            return (await here.call_tool("get_plan_status", {"planId": plan_id})).body

        print_json(run_in_app(settings, answer), tight=True)
        return
    board = run_in_app(settings, lambda here: _read_board(here, plan))
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


async def _read_board(here: AppSession, text: str | None) -> PlanDetail:
    plan = await resolve_plan(here.call, text)
    return await read_plan_detail(here.call, plan.id, PlanInclude.BOARD)


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
        run_in_app(settings, lambda here: _watch(here, plan, console, live=live))


async def _watch(here: AppSession, text: str | None, console: Console, *, live: bool) -> None:
    board = await _read_board(here, text)
    if live and not board.is_closed:
        board = await show_live(
            console,
            board,
            lambda b: plan_display(b, live_viewport(console)),
            lambda b: read_plan_detail(here.call, b.plan.id, PlanInclude.BOARD, before=b),
        )
    # The last line of the terminal is for the prompt.
    console.print(plan_display(board, Viewport(width=console.width, height=console.height - 1)))
