"""`waybook migrate`, `retain`, `backup`, `restore`, `org erase` and `user erase`."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from waybook.app.operations.checks import CheckState, examined_owner
from waybook.app.operations.erasure import Erased, erase_org, erase_user, retain
from waybook.app.operations.private_file import Manifest, back_up, restore_backup, verify_backup
from waybook.application import (
    DatabaseServer,
    database_server,
    distribute_tables,
    pending_migrations,
    run_migrations,
)
from waybook.cli.options import force_option, yes_option
from waybook.cli.output import done
from waybook.cli.progress import progress_bar
from waybook.cli.runtime import Outcome, T, settings_command
from waybook.cli.terminal.console import success
from waybook.settings import Settings


def _as_owner(settings: Settings, work: Callable[[DatabaseServer], Awaitable[T]]) -> T:
    async def run() -> T:
        async with database_server(settings) as postgres:
            return await work(postgres)

    return asyncio.run(run())


@settings_command(
    click.option(
        "--check", is_flag=True, help="Only check; exit code 1 if migrations are pending."
    ),
    click.option("--distribute", is_flag=True, help="Then distribute the tables by org (Citus)."),
)
def migrate_command(settings: Settings, *, check: bool, distribute: bool) -> Outcome:
    """Apply pending database migrations.

    Run it as the owner of the database, before servers of the new version start. With the embedded
    server this is not necessary: every command applies pending migrations there.
    """
    if check:
        names = _as_owner(settings, pending_migrations)
        end = ["  try: waybook migrate"] if names else [done("the database is up to date")]
        lines = [*(f"to do  {name}" for name in names), *end]
        return Outcome({"pending": names}, lines, exit_code=int(bool(names)))
    names = asyncio.run(run_migrations(settings))
    if distribute:
        click.echo(f"distributed: {len(asyncio.run(distribute_tables(settings)))} tables", err=True)
    if settings.database_url:
        owner = _as_owner(settings, lambda postgres: examined_owner(postgres.owner_dsn))
        if owner.state is not CheckState.OK:
            click.secho(f"! the owner of the database: {owner.message}", fg="yellow", err=True)
            click.echo(f"  try: {owner.remedy}", err=True)
    end = [done(f"the database is up to date{' now' if names else ''}")]
    return Outcome({"ran": names}, [*(f"ran  {name}" for name in names), *end])


@settings_command(click.argument("slug"), yes_option)
def erase_org_command(settings: Settings, slug: str, *, yes: bool) -> Outcome:
    """Erase an org and all its data.

    Deletes every row of the org from every table. Only a record of the erasure remains: when, by
    whom, how many rows, and the last seal of each audit chain.
    """
    _confirm(f"All data of the org {slug} will be deleted permanently.", slug, yes=yes)
    with progress_bar("erasing") as report:
        erased = _erase(
            settings, lambda owner: erase_org(owner, slug, by=settings.user, progress=report)
        )
    return _erasure(erased, f"the org {slug} is erased")


@settings_command(click.argument("org"), click.argument("user"), yes_option)
def erase_user_command(settings: Settings, org: str, user: str, *, yes: bool) -> Outcome:
    """Erase a user (replace the name with a pseudonym).

    Deletes the user with all tokens and web sessions. The user's work belongs to the org and
    stays, under a random pseudonym; audit chains that contain the name are resealed.
    """
    _confirm(f"The name {user} will be removed from the org {org} permanently.", user, yes=yes)
    with progress_bar("erasing") as report:
        erased = _erase(
            settings, lambda owner: erase_user(owner, org, user, by=settings.user, progress=report)
        )
    return _erasure(erased, f"the user is erased, and is {erased.who} from now on")


def _confirm(warning: str, name: str, *, yes: bool) -> None:
    if yes:
        return
    click.echo(f"{warning} This cannot be undone.")
    if click.prompt(f"Type {name} to continue", default="", show_default=False) != name:
        raise click.Abort


def _erase(settings: Settings, erase: Callable[[str], Awaitable[Erased]]) -> Erased:
    asyncio.run(run_migrations(settings))
    return _as_owner(settings, lambda postgres: erase(postgres.owner_dsn))


def _erasure(erased: Erased, message: str) -> Outcome:
    fields = {"orgId": str(erased.org_id), "erasure": erased.number, "pseudonym": erased.who}
    rows = Table("table", "rows", box=None, pad_edge=False)
    for table, count in erased.counts.items():
        rows.add_row(table, str(count))
    record = Text(f"  recorded as erasure {erased.number} of org {erased.org_id}")
    return Outcome({**fields, "rows": erased.counts}, [rows, success(message), record])


@settings_command()
def retain_command(settings: Settings) -> Outcome:
    """Delete data past its retention period.

    Deletes logged calls, stored answers, ended web sessions, and closed plans and runs that are
    older than keep_calls_days and keep_archived_days. A
    serving process does this every hour.
    """
    asyncio.run(run_migrations(settings))
    gone = _as_owner(settings, lambda postgres: retain(postgres.owner_dsn, settings))
    lines = [f"{rows:>8}  {table}" for table, rows in gone.items()]
    end = done("nothing to delete: no data is past its retention period")
    return Outcome({"gone": gone}, [*lines, end])


_file_argument = click.argument("file", type=click.Path(path_type=Path))


@settings_command(
    _file_argument,
    force_option,
    click.option("--verify", is_flag=True, help="Only check this backup; needs no database."),
)
def backup_command(settings: Settings, file: Path, *, force: bool, verify: bool) -> Outcome:
    """Back up all data to a file.

    The server may run meanwhile. All orgs are read from one database snapshot, by the owner of the
    database; no superuser is needed. The file appears when it is complete. The file contains all
    data of all orgs: protect it like the database.
    """
    if verify:
        with progress_bar("checking") as report:
            manifest = verify_backup(file, progress=report)
        return _archive(manifest, file, f"{file} is complete")
    with progress_bar("backing up") as report:
        manifest = _as_owner(
            settings,
            lambda postgres: back_up(postgres.owner_dsn, file, force=force, progress=report),
        )
    return _archive(manifest, file, f"backed up to {file}")


def _archive(manifest: Manifest, file: Path, message: str) -> Outcome:
    anchor = manifest.anchor
    counts = {"orgs": manifest.orgs, "rows": manifest.rows, "bytes": manifest.bytes}
    chains = {"chains": anchor.chains, "entries": anchor.entries, "sha256": anchor.sha256}
    orgs = "1 org" if manifest.orgs == 1 else f"{manifest.orgs} orgs"
    size = f"{decimal(manifest.bytes)} before compression"
    return Outcome(
        {"file": str(file), "at": manifest.at, **counts, "anchor": chains},
        [
            success(message),
            Text(f"  {manifest.rows} rows of {orgs}, {size}, as of {manifest.at}"),
            Text(f"  {anchor.chains} audit chains with {anchor.entries} entries"),
        ],
    )


@settings_command(_file_argument)
def restore_command(settings: Settings, file: Path) -> Outcome:
    """Restore a backup into an empty database.

    A database that is not empty is refused. Everything is loaded in one transaction and compared
    with the backup; on any error nothing is changed.
    """
    with progress_bar("restoring") as report:
        manifest = _as_owner(
            settings,
            lambda postgres: restore_backup(
                postgres.owner_dsn, file, progress=report, vectors=postgres.vectors
            ),
        )
    return _archive(manifest, file, f"restored from {file}")
