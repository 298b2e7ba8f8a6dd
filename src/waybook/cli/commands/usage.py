"""`waybook usage`: reported usage by model, plan and run."""

import asyncio
from datetime import datetime

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from waybook.app.queries.usage import ModelUsage, OrgUsage, WorkUsage, count_usage
from waybook.cli.commands.audit import read_time
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.cli.terminal.console import usage_line
from waybook.core.usage import Totals, format_cost
from waybook.settings import Settings

NOT_REPORTED = "(not told)"
MIN_NAME_WIDTH = 12
#: Width of the figures next to a name.
FIGURES = 52


@click.command()
@click.option("--since", metavar="TIME", help="Since then, such as 2030-01-31 (30 days ago).")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="At most so many (20).")
@json_option
@database_options
def command(*, since: str | None, limit: int, as_json: bool, **flags: object) -> None:
    """Show what all work took.

    Tokens and money as agents told them with their results: in all, by model, and by plan and
    run, what cost most first.
    """
    settings = load_settings(flags)
    found = asyncio.run(_count(settings, read_time(since) if since else None, limit))
    if as_json:
        print_json(usage_json(found))
        return
    _show(get_console(), found)


async def _count(settings: Settings, since: datetime | None, most: int) -> OrgUsage:
    async with open_app(settings) as here:
        return await count_usage(here.call, since, most)


def _show(console: Console, found: OrgUsage) -> None:
    console.print(f"since     {found.since:%Y-%m-%d %H:%M} UTC", style="dim")
    console.print(usage_line(found.usage))
    if not found.work:
        console.print("No result has told what it took; agents pass usage with their results.")
        return
    names = [(one.model or NOT_REPORTED, one.usage) for one in found.models]
    _print(console, "model", names, found.models_total)
    work = [(_named(one), one.usage) for one in found.work]
    _print(console, "plan or run", work, found.work_total)


def _named(one: WorkUsage) -> str:
    return f"{one.kind} {one.id[:13]} {one.name}" if one.id else f"{one.kind} {one.name}"


def _print(console: Console, head: str, rows: list[tuple[str, Totals]], there: int) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    widest = max(MIN_NAME_WIDTH, console.width - FIGURES)
    table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=widest)
    for name in ("tokens in", "tokens out", "cost", "results"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, took in rows:
        figures = (
            f"{took.input_tokens:,}",
            f"{took.output_tokens:,}",
            format_cost(took.cost_micros),
        )
        table.add_row(Text(name), *figures, f"{took.results:,}")
    console.print()
    console.print(table)
    if there > len(rows):
        console.print(f"and {there - len(rows):,} more: --limit", style="dim")


def usage_json(found: OrgUsage) -> dict[str, object]:
    """Return the usage as a JSON object."""
    return {
        "since": found.since.isoformat(),
        "until": found.until.isoformat(),
        "usage": found.usage.as_reply(),
        "models": [_model(one) for one in found.models],
        "work": [_work(one) for one in found.work],
        "totalModels": found.models_total,
        "totalWork": found.work_total,
    }


def _model(one: ModelUsage) -> dict[str, object]:
    return {"model": one.model, **one.usage.as_reply()}


def _work(one: WorkUsage) -> dict[str, object]:
    named = {f"{one.kind}Id": one.id, "name": one.name} if one.id else {one.kind: one.name}
    return {**named, **one.usage.as_reply()}
