"""`waybook dag`: the prepared workflows: which there are, what they look like, and new ones."""

import asyncio
import sys
import textwrap
from typing import Any, cast

import click
from rich.table import Table
from rich.text import Text

from waybook.cli.dag_picture import picture
from waybook.cli.faults import Told, show
from waybook.cli.inputs import beginning
from waybook.cli.inside import inside, quiet_settings, the_console
from waybook.cli.map import read_models
from waybook.cli.options import as_json, database_options
from waybook.cli.printing import say, say_json
from waybook.dag.definition import definition_schema
from waybook.dag.definition_text import MOST_BYTES, parse_definition, text_of
from waybook.dag.loose import items, record
from waybook.doorway import Channel
from waybook.errors import BadRecipe
from waybook.record.oddities import visible
from waybook.settings import Settings

Answered = dict[str, Any]


@click.group()
def group() -> None:
    """Prepared workflows: list, show, add."""


@group.command("list")
@as_json
@database_options
def list_command(*, as_json: bool, **flags: object) -> None:
    """The workflows a run can be started of."""
    body = asyncio.run(_call(quiet_settings(flags), "list_dags", {}))
    if as_json:
        _tell(body["dags"])
        return
    the_console().print(_listed(body["dags"]))


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
        said = Text.assemble((dag["name"], "bold"), (f"  {dag['description']}".rstrip(), "dim"))
        table.add_row(dag["dagSlug"], str(dag["version"]), figures, said)
    return table


@group.command("show")
@click.argument("slug")
@click.option(
    "--models",
    metavar="N|NAMES",
    callback=read_models,
    help="How many models the first stage has, or which (a,b,c), to see what it comes to.",
)
@as_json
@database_options
def show_command(*, slug: str, models: tuple[str, ...], as_json: bool, **flags: object) -> None:
    """The map of a workflow: stages, steps, and the jobs to expect."""
    asked: dict[str, object] = {"dagSlug": slug, "detail": True}
    asked |= {"models": [*models]} if models else {}
    body = asyncio.run(_call(quiet_settings(flags), "get_dag_map", asked))
    if as_json:
        _tell({name: value for name, value in body.items() if name != "next"})
        return
    console = the_console()
    console.print(picture(body, len(models), console.width))


@group.command("add")
@click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
@as_json
@database_options
def add_command(*, file: str, as_json: bool, **flags: object) -> None:
    """Add a workflow, or a new version of it.

    FILE is a definition in YAML or JSON, or - for stdin. If it cannot be run, every fault is told
    with its place, and nothing is added. Runs that have begun keep their version.
    """
    text, settings = beginning(file, MOST_BYTES + 1), quiet_settings(flags)
    try:
        definition = parse_definition(text_of(text))
        body = asyncio.run(_call(settings, "add_dag", {"definition": definition}))
    except BadRecipe as fault:
        _refuse(cast("Answered", fault.as_json()["error"]), as_json=as_json)
    except Told as told:
        _refuse(told.error, as_json=as_json)
    else:
        _tell(body) if as_json else _say_added(body)


def _refuse(error: Answered, *, as_json: bool) -> None:
    """Tell what is wrong, each fault on its line."""
    if as_json:
        _tell({"error": error})
        sys.exit(1)
    faults = [record(one) for one in items(error["details"].get("faults"))]
    show(f"{error['code']}: {_summary(len(faults)) if faults else error['message']}", None)
    for fault in faults:
        at = click.style(visible(str(fault["at"])), bold=True)
        click.echo(f"  {at}  {fault['fault']}", err=True)
        say(_wrapped(str(fault["message"])), err=True)
    sys.exit(1)


def _wrapped(message: str) -> str:
    width = max(40, the_console().width)
    return textwrap.fill(message, width, initial_indent="    ", subsequent_indent="    ")


def _summary(count: int) -> str:
    return "one fault, nothing was added" if count == 1 else f"{count} faults, nothing was added"


def _say_added(body: Answered) -> None:
    slug, version = body["dagSlug"], body["version"]
    said = "is here already, as" if body["status"] == "unchanged" else "was added as"
    click.secho(f"✓ {slug} {said} version {version}", fg="green")
    click.echo(f"  see it: waybook dag show {slug} --models 3")


@group.command("schema")
def schema_command() -> None:
    """The JSON Schema that definitions have the form of."""
    say_json(definition_schema(), indent=2)


async def _call(settings: Settings, tool: str, asked: dict[str, object]) -> Answered:
    async with inside(settings) as here:
        answer = await here.house.doorway.enter(here.house.caller(Channel.CLI), tool, asked)
    if answer.is_error:
        raise Told(cast("Answered", answer.body["error"]))
    return answer.body


def _tell(body: object) -> None:
    say_json(body, tight=True)
