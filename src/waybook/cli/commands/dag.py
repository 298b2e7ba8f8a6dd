"""`waybook dag`: list, show and add prepared workflows."""

import asyncio
import sys
import textwrap
from typing import Any, cast

import click
from rich.table import Table
from rich.text import Text

from waybook.cli.inputs import read_models, read_prefix
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json, print_line
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.cli.terminal.errors import ToolError, print_error
from waybook.core.hidden_characters import escape_hidden
from waybook.dag.definitions.definition import definition_schema
from waybook.dag.definitions.source_text import MAX_BYTES, decode_text, parse_definition
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.errors import BadRecipe
from waybook.settings import Settings

Answered = dict[str, Any]


@click.group()
def group() -> None:
    """Prepared workflows: list, show, add."""


@group.command("list")
@json_option
@database_options
def list_command(*, as_json: bool, **flags: object) -> None:
    """List available workflows."""
    body = asyncio.run(_call(load_settings(flags), "list_dags", {}))
    if as_json:
        _tell(body["dags"])
        return
    get_console().print(_listed(body["dags"]))


def _listed(dags: list[Answered]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("slug", no_wrap=True)
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("stages", no_wrap=True)
    table.add_column("what it does")
    for dag in dags:
        stages = len(dag["stages"])
        steps = sum(stage["steps"] for stage in dag["stages"])
        figures = f"{stages}, {steps} steps"
        description = Text.assemble(
            (dag["name"], "bold"), (f"  {dag['description']}".rstrip(), "dim")
        )
        table.add_row(dag["dagSlug"], str(dag["version"]), figures, description)
    return table


@group.command("show")
@click.argument("slug")
@click.option(
    "--models",
    metavar="N|NAMES",
    callback=read_models,
    help="How many models the first stage has, or which (a,b,c), to compute expected job counts.",
)
@json_option
@database_options
def show_command(*, slug: str, models: tuple[str, ...], as_json: bool, **flags: object) -> None:
    """Show the map of a workflow: stages, steps, expected jobs."""
    args: dict[str, object] = {"dagSlug": slug, "detail": True}
    args |= {"models": [*models]} if models else {}
    body = asyncio.run(_call(load_settings(flags), "get_dag_map", args))
    if as_json:
        _tell({name: value for name, value in body.items() if name != "next"})
        return
    console = get_console()
    dag_display = load("waybook.cli.terminal.diagrams:dag_display")
    console.print(dag_display(body, len(models), console.width))


@group.command("add")
@click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
@json_option
@database_options
def add_command(*, file: str, as_json: bool, **flags: object) -> None:
    """Add a workflow, or a new version of it.

    FILE is a definition in YAML or JSON, or - for stdin. If it is invalid, every error is listed
    with its place, and nothing is added. Runs that have started keep their version.
    """
    text, settings = read_prefix(file, MAX_BYTES + 1), load_settings(flags)
    try:
        definition = parse_definition(decode_text(text))
        body = asyncio.run(_call(settings, "add_dag", {"definition": definition}))
    except BadRecipe as error:
        _refuse(cast("Answered", error.as_json()["error"]), as_json=as_json)
    except ToolError as tool_error:
        _refuse(tool_error.error, as_json=as_json)
    else:
        _tell(body) if as_json else _say_added(body)


def _refuse(error: Answered, *, as_json: bool) -> None:
    if as_json:
        _tell({"error": error})
        sys.exit(1)
    faults = [as_object(item) for item in as_list(error["details"].get("faults"))]
    print_error(f"{error['code']}: {_summary(len(faults)) if faults else error['message']}", None)
    for fault in faults:
        at = click.style(escape_hidden(str(fault["at"])), bold=True)
        click.echo(f"  {at}  {fault['fault']}", err=True)
        print_line(_wrapped(str(fault["message"])), err=True)
    sys.exit(1)


def _wrapped(message: str) -> str:
    width = max(40, get_console().width)
    return textwrap.fill(message, width, initial_indent="    ", subsequent_indent="    ")


def _summary(count: int) -> str:
    return "1 error; nothing was added" if count == 1 else f"{count} errors; nothing was added"


def _say_added(body: Answered) -> None:
    slug, version = body["dagSlug"], body["version"]
    phrase = "already exists as" if body["status"] == "unchanged" else "was added as"
    click.secho(f"✓ {slug} {phrase} version {version}", fg="green")
    click.echo(f"  see it: waybook dag show {slug} --models 3")


@group.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of definitions."""
    print_json(definition_schema(), indent=2)


async def _call(settings: Settings, tool: str, args: dict[str, object]) -> Answered:
    async with open_app(settings) as here:
        answer = await here.call_tool(tool, args)
    if answer.is_error:
        raise ToolError(cast("Answered", answer.body["error"]))
    return answer.body


def _tell(body: object) -> None:
    print_json(body, tight=True)
