"""`waybook usage`: reported usage by model, plan and run."""

import click
from rich.console import Console
from rich.text import Text

from waybook.app.queries.usage import OrgUsage, count_usage
from waybook.cli.inputs import read_time
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, run_in_app
from waybook.cli.terminal.console import plain_table, usage_line
from waybook.core.usage import Totals, format_cost

_NOT_REPORTED = "(not reported)"
MIN_NAME_WIDTH = 12
_FIGURES = 52


@click.command()
@click.option("--since", metavar="TIME", help="Start time, e.g. 2030-01-31 (default: 30 days ago).")
@limit_option(20)
@json_option
@database_options
def command(*, since: str | None, limit: int, as_json: bool, **flags: object) -> None:
    """Show token usage and cost.

    Tokens and cost as reported by agents: total, by model, and by plan and run, most expensive
    first.
    """
    settings = load_settings(flags)
    start = read_time(since) if since else None
    org_usage = run_in_app(settings, lambda here: count_usage(here.call, start, limit))
    if as_json:
        print_json(_usage_json(org_usage))
    else:
        _show(get_console(), org_usage)


def _show(console: Console, org_usage: OrgUsage) -> None:
    console.print(f"since     {org_usage.since:%Y-%m-%d %H:%M} UTC", style="dim")
    console.print(usage_line(org_usage.usage))
    if not org_usage.work:
        console.print("No usage reported. Agents report usage with their results.")
        return
    names = [(row.model or _NOT_REPORTED, row.usage) for row in org_usage.models]
    _print(console, "model", names, org_usage.models_total)
    work = [
        (f"{row.kind} {f'{row.id} ' if row.id else ''}{row.name}", row.usage)
        for row in org_usage.work
    ]
    _print(console, "plan or run", work, org_usage.work_total)


def _print(console: Console, head: str, rows: list[tuple[str, Totals]], there: int) -> None:
    table = plain_table()
    widest = max(MIN_NAME_WIDTH, console.width - _FIGURES)
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
        console.print(f"and {there - len(rows):,} more; see --limit", style="dim")


def _usage_json(org_usage: OrgUsage) -> dict[str, object]:
    return {
        "since": org_usage.since.isoformat(),
        "until": org_usage.until.isoformat(),
        "usage": org_usage.usage.as_reply(),
        "models": [{"model": row.model, **row.usage.as_reply()} for row in org_usage.models],
        "work": [
            {
                **({f"{row.kind}Id": row.id, "name": row.name} if row.id else {row.kind: row.name}),
                **row.usage.as_reply(),
            }
            for row in org_usage.work
        ],
        "totalModels": org_usage.models_total,
        "totalWork": org_usage.work_total,
    }
