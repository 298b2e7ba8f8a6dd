"""`waybook workflow`: list, view and add prepared workflows."""

import sys
import textwrap
from typing import Any, NoReturn, cast

import click

from waybook.cli.access import (
    Server,
    fields_option,
    open_page,
    open_server,
    server_command,
    web_option,
)
from waybook.cli.completion import completer
from waybook.cli.inputs import read_models, read_prefix
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option
from waybook.cli.output import done, print_json, print_line
from waybook.cli.runtime import Outcome, get_console, print_outcome
from waybook.cli.terminal.errors import ToolError, print_error
from waybook.cli.terminal.rows import print_fields
from waybook.core.hidden_characters import escape_hidden
from waybook.dag.definitions.definition import definition_schema
from waybook.dag.definitions.source_text import MAX_BYTES, decode_text, parse_definition
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.errors import BadRecipe


@server_command(
    click.argument("slug", shell_complete=completer("workflows", "dagSlug")),
    click.option(
        "--models",
        metavar="N|NAMES",
        callback=read_models,
        help="How many models the first stage has, or which (a,b,c), to compute expected job "
        "counts.",
    ),
    fields_option,
    web_option,
)
def show_command(
    server: Server, *, slug: str, models: tuple[str, ...], fields: str | None, web: bool
) -> None:
    """Show the map of a workflow: stages, steps, expected jobs."""
    args: dict[str, object] = {"dagSlug": slug, "detail": True}
    if web:
        open_page(f"{server.url}/dags/{slug}")
        return
    body = server.call("get_dag_map", args | ({"models": [*models]} if models else {}))
    if fields is not None:
        print_fields({name: value for name, value in body.items() if name != "next"}, fields)
        return
    console = get_console()
    dag_display = load("waybook.cli.terminal.workflow_views:dag_display")
    console.print(dag_display(body, len(models), console.width))


@click.command()
@click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
@json_option
@database_options
def add_command(*, file: str, as_json: bool, **flags: object) -> None:
    """Add a workflow, or a new version of it.

    FILE is a definition in YAML or JSON, or - for stdin. If it is invalid, every error is listed
    with its place, and nothing is added. Runs that have started keep their version.
    """
    text = read_prefix(file, MAX_BYTES + 1)
    try:
        definition = parse_definition(decode_text(text))
        with open_server(flags) as server:
            body = server.call("add_dag", {"definition": definition})
    except BadRecipe as error:
        _refuse(cast("dict[str, Any]", error.as_json()["error"]), as_json=as_json)
    except ToolError as tool_error:
        _refuse(tool_error.error, as_json=as_json)
    slug, version = body["dagSlug"], body["version"]
    phrase = "already exists as" if body["status"] == "unchanged" else "was added as"
    lines = [done(f"{slug} {phrase} version {version}")]
    lines.append(f"  see it: waybook workflow view {slug} --models 3")
    print_outcome(Outcome(body, lines), as_json=as_json, tight=True)


def _refuse(error: dict[str, Any], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": error}, tight=True)
        sys.exit(1)
    faults = [as_object(item) for item in as_list(error["details"].get("faults"))]
    counted = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
    summary = f"{counted}; nothing was added" if faults else error["message"]
    print_error(f"{error['code']}: {summary}", None)
    width = max(40, get_console().width)
    for fault in faults:
        at = click.style(escape_hidden(str(fault["at"])), bold=True)
        click.echo(f"  {at}  {fault['fault']}", err=True)
        message, indent = str(fault["message"]), " " * 4
        print_line(
            textwrap.fill(message, width, initial_indent=indent, subsequent_indent=indent), err=True
        )
    sys.exit(1)


@click.command()
def schema_command() -> None:
    """Print the JSON Schema of definitions."""
    print_json(definition_schema(), indent=2)
