"""`waybook usage`: what all work took, by model, by plan and by run."""

import asyncio
from datetime import datetime

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.cli.audit import read_time
from waybook.cli.costs import usage_line
from waybook.cli.inside import inside, quiet_settings, the_console
from waybook.cli.options import as_json, database_options
from waybook.cli.printing import say_json
from waybook.record.usage import Totals, money
from waybook.settings import Settings
from waybook.usecases.count_usage import ModelUsage, OrgUsage, WorkUsage, count_usage

NOBODY_TOLD = "(not told)"
NARROWEST_NAME = 12
#: What the figures beside a name take.
FIGURES = 52


@click.command()
@click.option("--since", metavar="TIME", help="Since then, such as 2030-01-31 (30 days ago).")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="At most so many (20).")
@as_json
@database_options
def command(*, since: str | None, limit: int, as_json: bool, **flags: object) -> None:
    """Show what all work took.

    Tokens and money as agents told them with their results: in all, by model, and by plan and
    run, what cost most first.
    """
    settings = quiet_settings(flags)
    found = asyncio.run(_count(settings, read_time(since) if since else None, limit))
    if as_json:
        say_json(told(found))
        return
    _show(the_console(), found)


async def _count(settings: Settings, since: datetime | None, most: int) -> OrgUsage:
    async with inside(settings) as here:
        return await count_usage(here.call, since, most)


def _show(console: Console, found: OrgUsage) -> None:
    console.print(f"since     {found.since:%Y-%m-%d %H:%M} UTC", style="dim")
    console.print(usage_line(found.took))
    if not found.work:
        console.print("No result has told what it took; agents pass usage with their results.")
        return
    names = [(one.model or NOBODY_TOLD, one.took) for one in found.models]
    _print(console, "model", names, found.models_there)
    work = [(_named(one), one.took) for one in found.work]
    _print(console, "plan or run", work, found.work_there)


def _named(one: WorkUsage) -> str:
    return f"{one.kind} {one.id[:13]} {one.name}" if one.id else f"{one.kind} {one.name}"


def _print(console: Console, head: str, rows: list[tuple[str, Totals]], there: int) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    widest = max(NARROWEST_NAME, console.width - FIGURES)
    table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=widest)
    for name in ("tokens in", "tokens out", "cost", "results"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, took in rows:
        figures = (f"{took.input_tokens:,}", f"{took.output_tokens:,}", money(took.cost_micros))
        table.add_row(Text(name), *figures, f"{took.results:,}")
    console.print()
    console.print(table)
    if there > len(rows):
        console.print(f"and {there - len(rows):,} more: --limit", style="dim")


def told(found: OrgUsage) -> dict[str, object]:
    """The same for machines."""
    return {
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "usage": found.took.as_told(),
        "models": [_model(one) for one in found.models],
        "work": [_work(one) for one in found.work],
        "totalModels": found.models_there,
        "totalWork": found.work_there,
    }


def _model(one: ModelUsage) -> dict[str, object]:
    return {"model": one.model, **one.took.as_told()}


def _work(one: WorkUsage) -> dict[str, object]:
    named = {f"{one.kind}Id": one.id, "name": one.name} if one.id else {one.kind: one.name}
    return {**named, **one.took.as_told()}
