"""`waybook restore`: a backup, back in a database."""

import asyncio
from pathlib import Path

import click

from waybook.cli.backup import file_argument, report_archive, shown_progress
from waybook.cli.inside import load_settings
from waybook.cli.options import database_options, json_option
from waybook.settings import Settings
from waybook.store.archive import Manifest
from waybook.usecases.back_up import restore_backup
from waybook.wiring import database_server


@click.command()
@file_argument
@json_option
@database_options
def command(*, file: Path, as_json: bool, **flags: object) -> None:
    """Restore a backup into an empty database.

    A database with anything in it is refused. Everything is loaded in one transaction, and checked
    against what was backed up; whatever goes wrong, nothing is left.
    """
    manifest = asyncio.run(_restore(load_settings(flags), file))
    report_archive(manifest, file, f"restored from {file}", as_json=as_json)


async def _restore(settings: Settings, file: Path) -> Manifest:
    async with database_server(settings) as postgres:
        with shown_progress("restoring") as progress:
            return await restore_backup(postgres.owner_dsn, file, progress=progress)
