"""`waybook call`: a single tool call from the command line."""

import difflib
import json
import sys

import click

from waybook.app.registry import MODULES
from waybook.cli.access import open_server
from waybook.cli.inputs import read_argument
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.terminal.errors import ToolError


@click.command()
@click.argument("tool")
@click.argument("arguments", default="{}", metavar="[JSON]")
@json_option
@database_options
def command(*, tool: str, arguments: str, as_json: bool, **flags: object) -> None:
    """Call an MCP tool.

    The arguments are a JSON object, or - to read it from stdin. A tool's error ends with exit
    code 1.
    """
    name, values = _known(tool), _read(arguments)
    try:
        with open_server(flags) as server:
            body = server.call(name, values)
    except ToolError as error:
        if not as_json:
            raise
        print_json({"error": error.error}, tight=True)
        sys.exit(1)
    print_json(body, tight=as_json, indent=None if as_json else 2)


def _known(tool: str) -> str:
    if tool in MODULES:
        return tool
    near = difflib.get_close_matches(tool, MODULES, 1)
    suggestion = f"; did you mean {near[0]}?" if near else "."
    raise click.BadParameter(
        f"there is no tool {tool}{suggestion} The tools are {', '.join(sorted(MODULES))}.",
        param_hint="TOOL",
    )


def _read(arguments: str) -> dict[str, object]:
    try:
        value = json.loads(read_argument(arguments, "JSON"))
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"this is not JSON: {error}", param_hint="JSON") from None
    if not isinstance(value, dict):
        raise click.BadParameter("the arguments must be a JSON object", param_hint="JSON")
    return value
