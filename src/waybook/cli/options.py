"""Options that commands share, and functions that build settings from them."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from waybook.core.decision_context import Scope
from waybook.settings import LoadedSettings
from waybook.settings_reading import read_settings

Command = TypeVar("Command", bound=Callable[..., Any])

DATABASE = (
    click.option(
        "--database-url",
        metavar="URL",
        help="PostgreSQL 15+ URL (default: embedded server).",
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Data directory of the embedded server.",
    ),
)
TOKEN = (
    click.option(
        "--token",
        metavar="TOKEN",
        help="API token (prefer WAYBOOK_TOKEN, which is not visible in process lists).",
    ),
)
SERVING = (
    click.option(
        "--tools",
        type=click.Choice(["auto", "research", "runs", "all"]),
        help="Tool profile (default: auto).",
    ),
    click.option(
        "--migrate",
        flag_value="always",
        default=None,
        help="Apply pending migrations to the database of the URL first.",
    ),
)
LISTENING = (
    click.option("--host", metavar="HOST", help="The address to listen on (127.0.0.1)."),
    click.option("--port", type=int, metavar="PORT", help="The port to listen on (8750)."),
    click.option(
        "--auth",
        type=click.Choice(["none", "required"]),
        help="Authentication mode: required, or none (local only).",
    ),
)

org_option = click.option(
    "--org", metavar="SLUG", help="Org slug (default: the token's org, or local)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def list_options(all_help: str) -> Callable[[Command], Command]:
    every = click.option("--all", "closed_too", is_flag=True, help=all_help)
    return lambda command: _with(command, (every, limit_option(100), json_option))


def limit_option(usual: int) -> Callable[[Command], Command]:
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=usual,
        help=f"Maximum number to show (default: {usual}).",
    )


def scopes_option(usual: tuple[Scope, ...], description: str) -> Callable[[Command], Command]:
    return click.option(
        "--scope",
        "scopes",
        multiple=True,
        type=click.Choice([str(scope) for scope in Scope]),
        callback=lambda _, __, words: tuple(map(Scope, words)) or usual,
        help=f"{description}; may be repeated (default: {', '.join(usual)}).",
    )


def database_options(command: Command) -> Command:
    return _with(command, (*DATABASE, *TOKEN))


def serving_options(command: Command) -> Command:
    return _with(command, (*SERVING, *DATABASE))


def token_option(command: Command) -> Command:
    return _with(command, TOKEN)


def listening_options(command: Command) -> Command:
    return _with(command, LISTENING)


def settings_from(flags: dict[str, object]) -> LoadedSettings:
    return read_settings(flags, os.environ)


def _with(command: Command, options: tuple[Callable[[Any], Any], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
