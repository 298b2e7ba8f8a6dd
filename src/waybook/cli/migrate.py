"""`waybook migrate`: the database, up to date."""

import asyncio
import json
import sys

import click

from waybook.cli.inside import load_settings
from waybook.cli.options import database_options, json_option
from waybook.settings import Settings
from waybook.usecases.findings import CheckResult, CheckState
from waybook.wiring import database_server, examined_owner, pending_migrations, run_migrations


@click.command()
@click.option("--check", is_flag=True, help="Only look: exit code 1 if something is to be done.")
@json_option
@database_options
def command(*, check: bool, as_json: bool, **flags: object) -> None:
    """Bring the database up to date.

    Every command that uses the database does this by itself; run it alone where serving and
    migrating are done by different users.
    """
    settings = load_settings(flags)
    names = asyncio.run(_pending(settings) if check else run_migrations(settings))
    if as_json:
        click.echo(json.dumps({"pending" if check else "ran": names}))
    else:
        _tell(names, check=check)
    if settings.database_url and not check:
        _warn(asyncio.run(_owner(settings)))
    sys.exit(1 if check and names else 0)


async def _pending(settings: Settings) -> list[str]:
    async with database_server(settings) as postgres:
        return await pending_migrations(postgres)


async def _owner(settings: Settings) -> CheckResult:
    async with database_server(settings) as postgres:
        return await examined_owner(postgres)


def _warn(owner: CheckResult) -> None:
    """Print on stderr what is wrong with the owner's role, if anything."""
    if owner.state is not CheckState.OK:
        click.secho(f"! the owner of the database: {owner.message}", fg="yellow", err=True)
        click.echo(f"  try: {owner.remedy}", err=True)


def _tell(names: list[str], *, check: bool) -> None:
    for name in names:
        click.echo(f"{'to do' if check else 'ran'}  {name}")
    if not names:
        click.secho("✓ the database is up to date", fg="green")
    elif check:
        click.echo("  try: waybook migrate")
    else:
        click.secho("✓ the database is up to date now", fg="green")
