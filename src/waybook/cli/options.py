"""The options commands share, and the settings they make together with the environment."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from waybook.settings import Found, read_settings

Command = TypeVar("Command", bound=Callable[..., Any])

DATABASE = (
    click.option(
        "--database-url",
        metavar="URL",
        help="A PostgreSQL 15 or newer; without one, an embedded server is used.",
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Where the embedded server keeps its data.",
    ),
)
SERVING = (
    click.option(
        "--tools",
        type=click.Choice(["plan", "research", "runs", "all"]),
        help="Which tools to offer (plan unless told otherwise).",
    ),
)
LISTENING = (
    click.option("--host", metavar="HOST", help="The address to listen on (127.0.0.1)."),
    click.option("--port", type=int, metavar="PORT", help="The port to listen on (8750)."),
    click.option(
        "--auth",
        type=click.Choice(["none", "required"]),
        help="Whether everybody must show a token (none: nobody, and this machine only).",
    ),
)

as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON, for machines.")


def database_options(command: Command) -> Command:
    """Let the command be told which database to use."""
    return _with(command, DATABASE)


def serving_options(command: Command) -> Command:
    """Let the command be told how to serve agents."""
    return _with(command, (*SERVING, *DATABASE))


def listening_options(command: Command) -> Command:
    """Let the command be told where to listen."""
    return _with(command, LISTENING)


def settings_from(flags: dict[str, object]) -> Found:
    """The settings in force, given these flags."""
    return read_settings(flags, os.environ)


def _with(command: Command, options: tuple[Callable[[Any], Any], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
