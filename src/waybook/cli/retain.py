"""`waybook retain`: what was kept long enough, gone."""

import asyncio

import click

from waybook.cli.inside import load_settings
from waybook.cli.options import database_options, json_option
from waybook.cli.printing import print_json
from waybook.settings import Settings
from waybook.usecases.retain import retain
from waybook.wiring import database_server, run_migrations


@click.command()
@json_option
@database_options
def command(*, as_json: bool, **flags: object) -> None:
    """Let go what was kept long enough.

    Old calls, old answers, browsers that signed out, and plans and runs that are over for long
    enough, as keep_calls_days, keep_answers_days, keep_sessions_days and keep_archived_days say. A
    serving process does this every hour.
    """
    gone = asyncio.run(_retain(load_settings(flags)))
    if as_json:
        print_json({"gone": gone})
        return
    for table, rows in gone.items():
        click.echo(f"{rows:>8}  {table}")
    click.secho("✓ nothing is older than it may be", fg="green")


async def _retain(settings: Settings) -> dict[str, int]:
    await run_migrations(settings)
    async with database_server(settings) as postgres:
        return await retain(postgres.owner_dsn, settings)
