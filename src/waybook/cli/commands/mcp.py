"""`waybook mcp`: MCP server over stdio that answers even before the database is ready."""

import contextlib
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from waybook.cli.lazy import load
from waybook.cli.logs import configure_server_logging
from waybook.cli.options import serving_options, token_option
from waybook.embedded_postgres.supervisor import Attachment, attach
from waybook.errors import WaybookError
from waybook.settings import Settings
from waybook.settings_reading import settings_from

#: Threshold for garbage collection while the server runs: the usual default of Python.
_GARBAGE_OBJECTS = 700


@click.command()
@serving_options
@token_option
def command(**flags: object) -> None:
    """Start an MCP server over stdio.

    For clients that start their servers themselves: claude mcp add waybook -- waybook mcp
    """
    loaded = settings_from(flags)
    configure_server_logging(loaded)
    with _database_starting(loaded.settings):
        serve = load("waybook.cli.stdio.server:serve")
        gc.freeze()
        gc.set_threshold(_GARBAGE_OBJECTS)
        serve(loaded)


@contextmanager
def _database_starting(settings: Settings) -> Iterator[None]:
    """Start the embedded PostgreSQL in a thread, while the block imports the server.

    Errors are ignored here, because the application reports them when it connects.
    """
    attached: list[Attachment] = []

    def start() -> None:
        with contextlib.suppress(WaybookError):
            attached.append(attach(Path(settings.data_dir)))

    starting = threading.Thread(target=start, daemon=True)
    if not settings.database_url:
        starting.start()
    try:
        yield
    finally:
        if starting.is_alive():
            starting.join()
        for attachment in attached:
            attachment.close()
