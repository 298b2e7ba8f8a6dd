"""`waybook plans`: the plans at a glance."""

import asyncio

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from waybook.cli.bar import segmented_bar
from waybook.cli.inside import get_console, load_settings, open_app
from waybook.cli.looks import PLAN_STYLES
from waybook.cli.options import database_options, json_option
from waybook.cli.printing import print_json
from waybook.plan.progress import percent
from waybook.plan.states import PlanStatus, StepStatus
from waybook.record.spans import format_age
from waybook.settings import Settings
from waybook.usecases.find_plans import PlanSummary, find_plans
from waybook.usecases.links import review_url

MIN_ID_LENGTH = 8
#: Below this width the bar gives way to its figures.
MIN_WIDTH_FOR_BARS = 100


@click.command()
@click.option("--all", "closed_too", is_flag=True, help="Completed and failed plans too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="At most so many (100).")
@json_option
@database_options
def command(*, closed_too: bool, limit: int, as_json: bool, **flags: object) -> None:
    """List the plans, newest activity first."""
    settings = load_settings(flags)
    plans = asyncio.run(_find(settings, closed_too=closed_too, limit=limit))
    if as_json:
        print_json([_as_json(plan, settings.base_url) for plan in plans])
        return
    console = get_console()
    if plans:
        console.print(_table(plans, console.width))
    else:
        console.print("No plan is open." if not closed_too else "There are no plans yet.")
        console.print("An agent writes one with create_research_plan; or see: waybook demo")


async def _find(settings: Settings, *, closed_too: bool, limit: int) -> list[PlanSummary]:
    async with open_app(settings) as here:
        return await find_plans(here.call, open_only=not closed_too, limit=limit)


def _table(plans: list[PlanSummary], width: int) -> Table:
    short = unique_prefix_length([plan.id for plan in plans])
    bars = width >= MIN_WIDTH_FOR_BARS
    rows = [_row(plan, short, bars=bars) for plan in plans]
    heads = ["id", "plan", "status", *(["progress", ""] if bars else ["progress"]), "activity"]
    taken = [
        max(cell_len(head), *(row[n].cell_len for row in rows)) for n, head in enumerate(heads)
    ]
    taken[1] = min(taken[1], max(12, width - sum(taken[:1] + taken[2:]) - 2 * len(heads)))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for head, cells in zip(heads, taken, strict=True):
        table.add_column(head, no_wrap=True, overflow="ellipsis", width=cells)
    for row in rows:
        table.add_row(*row)
    return table


def _row(plan: PlanSummary, short: int, *, bars: bool) -> list[Text]:
    return [
        Text(plan.id[:short], style="dim"),
        Text(plan.name),
        PLAN_STYLES[plan.status].text(),
        *([segmented_bar(plan.counts, 20)] if bars else []),
        progress_text(plan),
        Text(format_age(plan.updated_at, plan.now), style="dim"),
    ]


def progress_text(plan: PlanSummary) -> Text:
    """How far a plan is: "4 of 13, 1 failed"."""
    said = Text(f"{plan.done} of {plan.total}")
    failed = plan.counts.get(StepStatus.FAILED, 0)
    return said.append(f", {failed} failed", style="red") if failed else said


def unique_prefix_length(ids: list[str]) -> int:
    """How many letters tell these ids apart.

    >>> (
    ...     unique_prefix_length(["0198f3c2-a1b4", "0198f3c2-a2b4"]),
    ...     unique_prefix_length(["0198f3c2-a1b4"]),
    ... )
    (11, 8)
    """
    for length in range(MIN_ID_LENGTH, max(map(len, ids))):
        if len({text[:length] for text in ids}) == len(ids) and any(
            t[length - 1] != "-" for t in ids
        ):
            return length
    return max(map(len, ids))


def _as_json(plan: PlanSummary, base_url: str) -> dict[str, object]:
    waits = plan.status is PlanStatus.AWAITING_REVIEW
    return {
        "planId": plan.id,
        "name": plan.name,
        "status": str(plan.status),
        "progress": percent(plan.done, plan.total),
        "counts": {
            "done": plan.done,
            "total": plan.total,
            **{str(s): n for s, n in plan.counts.items()},
        },
        **({"reviewUrl": review_url(plan.id, base_url)} if waits else {}),
        "createdAt": plan.created_at.isoformat(),
        "createdBy": plan.created_by,
        "lastActivityAt": plan.updated_at.isoformat(),
    }
