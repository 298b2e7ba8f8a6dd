"""`waybook backup` and `waybook restore`: the whole database in one file."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text

from waybook.app.operations.backup import (
    Manifest,
    Progress,
    back_up,
    restore_backup,
    verify_backup,
)
from waybook.application import database_server
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings
from waybook.settings import Settings

file_argument = click.argument("file", type=click.Path(path_type=Path))


@click.command()
@file_argument
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
        with shown_progress("checking") as progress:
            manifest = verify_backup(file, progress=progress)
        report_archive(manifest, file, f"{file} is complete", as_json=as_json)
        return
    manifest = asyncio.run(_back_up(settings, file, force=force))
    report_archive(manifest, file, f"backed up to {file}", as_json=as_json)


async def _back_up(settings: Settings, file: Path, *, force: bool) -> Manifest:
    async with database_server(settings) as postgres:
        with shown_progress("backing up") as progress:
            return await back_up(postgres.owner_dsn, file, force=force, progress=progress)


@contextmanager
def shown_progress(what: str) -> Iterator[Progress]:
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


def report_archive(manifest: Manifest, file: Path, done: str, *, as_json: bool) -> None:
    anchor = manifest.anchor
    if as_json:
        counts = {"orgs": manifest.orgs, "rows": manifest.rows, "bytes": manifest.bytes}
        chains = {"chains": anchor.chains, "entries": anchor.entries, "sha256": anchor.sha256}
        print_json({"file": str(file), "at": manifest.at, **counts, "anchor": chains})
        return
    console = get_console()
    console.print(Text.assemble(("✓ ", "green"), done))
    console.print(
        Text(
            f"  {manifest.rows} rows of {_orgs(manifest.orgs)}, {decimal(manifest.bytes)} before "
            f"compression, as of {manifest.at}"
        )
    )
    console.print(Text(f"  {anchor.chains} audit chains with {anchor.entries} entries"))


def _orgs(count: int) -> str:
    return "1 org" if count == 1 else f"{count} orgs"


@click.command()
@file_argument
@json_option
@database_options
def restore_command(*, file: Path, as_json: bool, **flags: object) -> None:
    """Restore a backup into an empty database.

    A database that is not empty is refused. Everything is loaded in one transaction and compared
    with the backup; on any error nothing is changed.
    """
    manifest = asyncio.run(_restore(load_settings(flags), file))
    report_archive(manifest, file, f"restored from {file}", as_json=as_json)


async def _restore(settings: Settings, file: Path) -> Manifest:
    async with database_server(settings) as postgres:
        with shown_progress("restoring") as progress:
            return await restore_backup(
                postgres.owner_dsn, file, progress=progress, vectors=postgres.vectors
            )
