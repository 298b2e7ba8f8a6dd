"""`waybook migrate`, `retain`, `backup`, `restore`, `org erase` and `user erase`."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as ProgressBar
from rich.table import Table
from rich.text import Text

from waybook.app.operations.backup import (
    Manifest,
    Progress,
    back_up,
    restore_backup,
    verify_backup,
)
from waybook.app.operations.checks import CheckState, examined_owner
from waybook.app.operations.erasure import Erased, erase_org, erase_user, retain
from waybook.application import (
    DatabaseServer,
    database_server,
    distribute_tables,
    pending_migrations,
    run_migrations,
)
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import T, get_console, load_settings
from waybook.cli.terminal.console import success
from waybook.settings import Settings


def _as_owner(settings: Settings, work: Callable[[DatabaseServer], Awaitable[T]]) -> T:
    async def run() -> T:
        async with database_server(settings) as postgres:
            return await work(postgres)

    return asyncio.run(run())


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
    names = (
        _as_owner(settings, pending_migrations) if check else asyncio.run(run_migrations(settings))
    )
    if as_json:
        click.echo(json.dumps({"pending" if check else "ran": names}))
    else:
        _print_migrations(names, check=check)
    if distribute and not check:
        click.echo(f"distributed: {len(asyncio.run(distribute_tables(settings)))} tables", err=True)
    if settings.database_url and not check:
        owner = _as_owner(settings, lambda postgres: examined_owner(postgres.owner_dsn))
        if owner.state is not CheckState.OK:
            click.secho(f"! the owner of the database: {owner.message}", fg="yellow", err=True)
            click.echo(f"  try: {owner.remedy}", err=True)
    sys.exit(1 if check and names else 0)


def _print_migrations(names: list[str], *, check: bool) -> None:
    for name in names:
        click.echo(f"{'to do' if check else 'ran'}  {name}")
    if not names:
        click.secho("✓ the database is up to date", fg="green")
    elif check:
        click.echo("  try: waybook migrate")
    else:
        click.secho("✓ the database is up to date now", fg="green")


Erase = Callable[[str, Callable[[int, int], None]], Awaitable[Erased]]

_yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")


@click.command()
@click.argument("slug")
@_yes_option
@json_option
@database_options
def org(*, slug: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase an org and all its data.

    Deletes every row of the org from every table. Only a record of the erasure remains: when, by
    whom, how many rows, and the last seal of each audit chain.
    """
    settings = load_settings(flags)
    _confirm(f"All data of the org {slug} will be deleted permanently.", slug, yes=yes)
    erased = _erase(
        settings, lambda owner, tell: erase_org(owner, slug, by=settings.user, progress=tell)
    )
    _print_erasure(erased, f"the org {slug} is erased", as_json=as_json)


@click.command()
@click.argument("org")
@click.argument("user")
@_yes_option
@json_option
@database_options
def user(*, org: str, user: str, yes: bool, as_json: bool, **flags: object) -> None:
    """Erase a user (replace the name with a pseudonym).

    Deletes the user with all tokens and web sessions. The user's work belongs to the org and
    stays, under a random pseudonym; audit chains that contain the name are resealed.
    """
    settings = load_settings(flags)
    _confirm(f"The name {user} will be removed from the org {org} permanently.", user, yes=yes)
    erased = _erase(
        settings,
        lambda owner, tell: erase_user(owner, org, user, by=settings.user, progress=tell),
    )
    _print_erasure(erased, f"the user is erased, and is {erased.who} from now on", as_json=as_json)


def _confirm(warning: str, name: str, *, yes: bool) -> None:
    if yes:
        return
    click.echo(f"{warning} This cannot be undone.")
    if click.prompt(f"Type {name} to continue", default="", show_default=False) != name:
        raise click.Abort


def _erase(settings: Settings, erase: Erase) -> Erased:
    columns = (TextColumn("erasing"), BarColumn(), MofNCompleteColumn())

    async def run(postgres: DatabaseServer) -> Erased:
        with ProgressBar(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task("erasing", total=None)

            def tell(done: int, total: int) -> None:
                shown.update(task, completed=done, total=total)

            return await erase(postgres.owner_dsn, tell)

    asyncio.run(run_migrations(settings))
    return _as_owner(settings, run)


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
    console.print(success(message))
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
    settings = load_settings(flags)
    asyncio.run(run_migrations(settings))
    gone = _as_owner(settings, lambda postgres: retain(postgres.owner_dsn, settings))
    if as_json:
        print_json({"gone": gone})
        return
    for table, rows in gone.items():
        click.echo(f"{rows:>8}  {table}")
    click.secho("✓ nothing to delete: no data is past its retention period", fg="green")


_file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@_file_argument
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--verify", is_flag=True, help="Only check this backup; needs no database.")
@json_option
@database_options
def backup_command(
    *, file: Path, force: bool, verify: bool, as_json: bool, **flags: object
) -> None:
    """Back up all data to a file while the server runs.

    All orgs are read from one database snapshot, by the owner of the database; no superuser is
    needed. The file appears when it is complete. The file contains all data of all orgs: protect it
    like the database.
    """
    settings = load_settings(flags)
    if verify:
        with _shown_progress("checking") as progress:
            manifest = verify_backup(file, progress=progress)
        _print_archive(manifest, file, f"{file} is complete", as_json=as_json)
        return

    async def write(postgres: DatabaseServer) -> Manifest:
        with _shown_progress("backing up") as progress:
            return await back_up(postgres.owner_dsn, file, force=force, progress=progress)

    _print_archive(_as_owner(settings, write), file, f"backed up to {file}", as_json=as_json)


@contextmanager
def _shown_progress(what: str) -> Iterator[Progress]:
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows {task.fields[size]}"),
    )
    with ProgressBar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, size="")

        def progress(rows: int, total: int, size: int) -> None:
            bar.update(task, completed=rows, total=total, size=decimal(size))

        yield progress


def _print_archive(manifest: Manifest, file: Path, done: str, *, as_json: bool) -> None:
    anchor = manifest.anchor
    if as_json:
        counts = {"orgs": manifest.orgs, "rows": manifest.rows, "bytes": manifest.bytes}
        chains = {"chains": anchor.chains, "entries": anchor.entries, "sha256": anchor.sha256}
        print_json({"file": str(file), "at": manifest.at, **counts, "anchor": chains})
        return
    console = get_console()
    console.print(success(done))
    orgs = "1 org" if manifest.orgs == 1 else f"{manifest.orgs} orgs"
    size = f"{decimal(manifest.bytes)} before compression"
    console.print(Text(f"  {manifest.rows} rows of {orgs}, {size}, as of {manifest.at}"))
    console.print(Text(f"  {anchor.chains} audit chains with {anchor.entries} entries"))


@click.command()
@_file_argument
@json_option
@database_options
def restore_command(*, file: Path, as_json: bool, **flags: object) -> None:
    """Restore a backup into an empty database.

    A database that is not empty is refused. Everything is loaded in one transaction and compared
    with the backup; on any error nothing is changed.
    """

    async def load(postgres: DatabaseServer) -> Manifest:
        with _shown_progress("restoring") as progress:
            return await restore_backup(
                postgres.owner_dsn, file, progress=progress, vectors=postgres.vectors
            )

    manifest = _as_owner(load_settings(flags), load)
    _print_archive(manifest, file, f"restored from {file}", as_json=as_json)
