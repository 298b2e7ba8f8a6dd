"""`waybook migrate`, `waybook retain`, `waybook org erase` and `waybook user erase`."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from waybook.app.operations.checks import CheckResult, CheckState, examined_owner
from waybook.app.operations.erasure import Erased, erase_org, erase_user, retain
from waybook.application import (
    database_server,
    distribute_tables,
    pending_migrations,
    run_migrations,
)
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings
from waybook.settings import Settings


@click.command()
@click.option("--check", is_flag=True, help="Only check; exit code 1 if migrations are pending.")
@click.option("--distribute", is_flag=True, help="Then distribute the tables by org (Citus).")
@json_option
@database_options
def migrate_command(*, check: bool, distribute: bool, as_json: bool, **flags: object) -> None:
    """Apply pending database migrations.

    Run it as the owner of the database, before servers of the new version start. With the embedded
    server this is not necessary: every command applies pending migrations there.
    """
    settings = load_settings(flags)
    names = asyncio.run(_pending(settings) if check else run_migrations(settings))
    if as_json:
        click.echo(json.dumps({"pending" if check else "ran": names}))
    else:
        _print_migrations(names, check=check)
    if distribute and not check:
        click.echo(f"distributed: {len(asyncio.run(distribute_tables(settings)))} tables", err=True)
    if settings.database_url and not check:
        _warn(asyncio.run(_owner(settings)))
    sys.exit(1 if check and names else 0)


async def _pending(settings: Settings) -> list[str]:
    async with database_server(settings) as postgres:
        return await pending_migrations(postgres)


async def _owner(settings: Settings) -> CheckResult:
    async with database_server(settings) as postgres:
        return await examined_owner(postgres.owner_dsn)


def _warn(owner: CheckResult) -> None:
    if owner.state is not CheckState.OK:
        click.secho(f"! the owner of the database: {owner.message}", fg="yellow", err=True)
        click.echo(f"  try: {owner.remedy}", err=True)


def _print_migrations(names: list[str], *, check: bool) -> None:
    for name in names:
        click.echo(f"{'to do' if check else 'ran'}  {name}")
    if not names:
        click.secho("✓ the database is up to date", fg="green")
    elif check:
        click.echo("  try: waybook migrate")
    else:
        click.secho("✓ the database is up to date now", fg="green")


Erase = Callable[[str, Callable[[int, int], None]], Coroutine[object, object, Erased]]

yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")


@click.command()
@click.argument("slug")
@yes_option
@json_option
@database_options
def org(*, slug: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase an org and all its data.

    Deletes every row of the org from every table. Only a record of the erasure remains: when, by
    whom, how many rows, and the last seal of each audit chain.
    """
    settings = load_settings(flags)
    _confirm(f"All data of the org {slug} will be deleted permanently.", slug, yes=yes)
    erased = asyncio.run(
        _erase(
            settings, lambda owner, tell: erase_org(owner, slug, by=settings.user, progress=tell)
        )
    )
    _print_erasure(erased, f"the org {slug} is erased", as_json=as_json)


@click.command()
@click.argument("org")
@click.argument("user")
@yes_option
@json_option
@database_options
def user(*, org: str, user: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase a user (replace the name with a pseudonym).

    Deletes the user with all tokens and web sessions. The user's work belongs to the org and
    stays, under a random pseudonym; audit chains that contain the name are resealed.
    """
    settings = load_settings(flags)
    _confirm(f"The name {user} will be removed from the org {org} permanently.", user, yes=yes)
    erased = asyncio.run(
        _erase(
            settings,
            lambda owner, tell: erase_user(owner, org, user, by=settings.user, progress=tell),
        )
    )
    _print_erasure(erased, f"the user is erased, and is {erased.who} from now on", as_json=as_json)


def _confirm(warning: str, name: str, *, yes: bool) -> None:
    if yes:
        return
    click.echo(f"{warning} This cannot be undone.")
    if click.prompt(f"Type {name} to continue", default="", show_default=False) != name:
        raise click.Abort


async def _erase(settings: Settings, erase: Erase) -> Erased:
    columns = (TextColumn("erasing"), BarColumn(), MofNCompleteColumn())
    await run_migrations(settings)
    async with database_server(settings) as postgres:
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task("erasing", total=None)

            def tell(done: int, total: int) -> None:
                shown.update(task, completed=done, total=total)

            return await erase(postgres.owner_dsn, tell)


def _print_erasure(erased: Erased, message: str, *, as_json: bool) -> None:
    if as_json:
        fields = {"orgId": str(erased.org_id), "erasure": erased.number, "pseudonym": erased.who}
        print_json({**fields, "rows": erased.counts})
        return
    console = get_console()
    rows = Table("table", "rows", box=None, pad_edge=False)
    for table, count in erased.counts.items():
        rows.add_row(table, str(count))
    console.print(rows)
    console.print(Text.assemble(("✓ ", "green"), message))
    console.print(Text(f"  recorded as erasure {erased.number} of org {erased.org_id}"))


@click.command()
@json_option
@database_options
def retain_command(*, as_json: bool, **flags: object) -> None:
    """Delete data past its retention period.

    Deletes logged calls, stored answers, ended web sessions, and closed plans and runs that are
    older than keep_calls_days and keep_archived_days. A
    serving process does this every hour.
    """
    gone = asyncio.run(_retain(load_settings(flags)))
    if as_json:
        print_json({"gone": gone})
        return
    for table, rows in gone.items():
        click.echo(f"{rows:>8}  {table}")
    click.secho("✓ nothing to delete: no data is past its retention period", fg="green")


async def _retain(settings: Settings) -> dict[str, int]:
    await run_migrations(settings)
    async with database_server(settings) as postgres:
        return await retain(postgres.owner_dsn, settings)
