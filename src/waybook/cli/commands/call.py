"""`waybook call`: a single tool call from the command line."""

import difflib
import json
import sys
from typing import cast

import click

from waybook.app.registry import MODULES
from waybook.cli.inputs import read_argument
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import load_settings, run_in_app
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
    settings, name, values = load_settings(flags), _known(tool), _read(arguments)
    answer = run_in_app(settings, lambda here: here.call_tool(name, values))
    if as_json:
        print_json(answer.body, tight=True)
        sys.exit(int(answer.is_error))
    if answer.is_error:
        raise ToolError(cast("dict[str, object]", answer.body["error"]))
    print_json(answer.body, indent=2)


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
