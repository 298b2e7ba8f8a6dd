"""`waybook plans`: list plans."""

import asyncio

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from waybook.app.queries.plans.plan_list import (
    PlanFilter,
    PlanOrder,
    PlanSummary,
    plan_summaries,
)
from waybook.app.request.page_urls import review_url
from waybook.cli.options import database_options, list_options
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.cli.terminal.bars import PLAN_STYLES, segmented_bar
from waybook.core.durations import format_age
from waybook.core.short_ids import short_id
from waybook.page_address import current_base_url
from waybook.plan.states import PlanState
from waybook.settings import Settings

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
    # People recognize plans by name, so the last columns are left out until names have enough
    # space.
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
        PLAN_STYLES[plan.state].text(),
        *([segmented_bar(plan.progress.counts, 20)] if bars else []),
        progress_text(plan),
        Text(format_age(plan.updated_at, plan.now), style="dim"),
    ]


def progress_text(plan: PlanSummary) -> Text:
    progress = plan.progress
    text = Text(f"{progress.done} of {progress.total}")
    return text.append(f", {progress.failed} failed", style="red") if progress.failed else text


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
