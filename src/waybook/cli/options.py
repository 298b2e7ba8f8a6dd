"""Options that commands share, and functions that build settings from them."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import click

#: A decorator of a command's function.
Option: TypeAlias = Callable[[Any], Any]


def combine(*options: Option) -> Option:
    """Return a decorator that adds these options, which `--help` lists in this order."""

    def decorate(command: Any) -> Any:  # noqa: ANN401 - as in click
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Data directory of the embedded server.",
)
token_option = click.option(
    "--token",
    metavar="TOKEN",
    help="API token (prefer WAYBOOK_TOKEN, which is not visible in process lists).",
)
tools_option = click.option(
    "--tools",
    type=click.Choice(["auto", "research", "runs", "all"]),
    help="Tool profile (default: auto).",
)
org_option = click.option(
    "--org", metavar="SLUG", help="Org slug (default: the token's org, or local)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Replace an existing file.")
yes_option = click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
_location_options = combine(
    click.option(
        "--database-url", metavar="URL", help="PostgreSQL 15+ URL (default: embedded server)."
    ),
    data_dir_option,
)
database_options = combine(_location_options, token_option)
serving_options = combine(
    tools_option,
    click.option(
        "--migrate",
        flag_value="always",
        default=None,
        help="Apply pending migrations to the database of the URL first.",
    ),
    _location_options,
)
listening_options = combine(
    click.option("--host", metavar="HOST", help="The address to listen on (127.0.0.1)."),
    click.option("--port", type=int, metavar="PORT", help="The port to listen on (8750)."),
    click.option(
        "--auth",
        type=click.Choice(["none", "required"]),
        help="Authentication mode: required, or none (local only).",
    ),
)


def limit_option(usual: int) -> Option:
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=usual,
        help=f"Maximum number to show (default: {usual}).",
    )


def scopes_option(usual: tuple[StrEnum, ...]) -> Option:
    scope = type(usual[0])
    return click.option(
        "--scope",
        "scopes",
        multiple=True,
        type=click.Choice([str(each) for each in scope]),
        callback=lambda _, __, words: tuple(map(scope, words)) or usual,
        help=f"Scopes; may be repeated (default: {', '.join(usual)}).",
    )
