"""`waybook usage`: reported usage by model, plan and run."""

from collections.abc import Iterator

import click
from rich.console import RenderableType
from rich.text import Text

from waybook.app.queries.usage import OrgUsage, count_usage
from waybook.cli.inputs import read_time
from waybook.cli.options import limit_option
from waybook.cli.runtime import AppSession, Outcome, app_command, get_console
from waybook.cli.terminal.console import figures, plain_table, unwrapped, usage_line
from waybook.core.usage import format_cost

_NOT_REPORTED = "(not reported)"
MIN_NAME_WIDTH = 12
_FIGURES = 52


@app_command(
    click.option(
        "--since", metavar="TIME", help="Start time, e.g. 2030-01-31 (default: 30 days ago)."
    ),
    limit_option(20),
    people=True,
)
async def command(here: AppSession, since: str | None, limit: int) -> Outcome:
    """Show token usage and cost.

    Tokens and cost as reported by agents: total, by model, and by plan and run, most expensive
    first.
    """
    org_usage = await count_usage(here.call, read_time(since) if since else None, limit)
    return Outcome(_usage_json(org_usage), _lines(org_usage))


def _lines(org_usage: OrgUsage) -> Iterator[RenderableType]:
    yield Text(f"since     {org_usage.since:%Y-%m-%d %H:%M} UTC", style="dim")
    yield usage_line(org_usage.usage.as_reply())
    if not org_usage.work:
        yield Text("No usage reported. Agents report usage with their results.")
        return
    models = [(row.model or _NOT_REPORTED, row.usage) for row in org_usage.models]
    work = [
        (f"{row.kind} {f'{row.id} ' if row.id else ''}{row.name}", row.usage)
        for row in org_usage.work
    ]
    widest = max(MIN_NAME_WIDTH, get_console().width - _FIGURES)
    for head, rows, there in (
        ("model", models, org_usage.models_total),
        ("plan or run", work, org_usage.work_total),
    ):
        numbers = map(figures, ("tokens in", "tokens out", "cost", "results"))
        table = plain_table(unwrapped(head, max_width=widest), *numbers)
        for name, took in rows:
            tokens = (f"{took.input_tokens:,}", f"{took.output_tokens:,}")
            cost = format_cost(took.cost_micros)
            table.add_row(Text(name), *tokens, cost, f"{took.results:,}")
        yield ""
        yield table
        if there > len(rows):
            yield Text(f"and {there - len(rows):,} more; see --limit", style="dim")


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
