"""Exports diagrams as SVG, Mermaid or Markdown for the commands `map`, `run` and `status`."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from waybook.cli.lazy import load
from waybook.dag.model import DrawingFormat

Command = TypeVar("Command", bound=Callable[..., Any])
RequestedExports = Mapping[DrawingFormat, str]

HELP = {
    DrawingFormat.SVG: "Write the map as SVG.",
    DrawingFormat.MERMAID: "Write the map as Mermaid.",
    DrawingFormat.MARKDOWN: "Write the map as a Markdown list.",
}


def export_options(command: Command) -> Command:
    for form in reversed(DrawingFormat):
        where = click.Path(allow_dash=True, dir_okay=False)
        command = click.option(f"--{form}", type=where, metavar="OUT", help=HELP[form])(command)
    return command


def pop_requested_exports(flags: dict[str, Any]) -> RequestedExports:
    paths = {form: flags.pop(str(form), None) for form in DrawingFormat}
    return {form: where for form, where in paths.items() if where is not None}


def write_exports(drawing: object, exports: RequestedExports) -> None:
    export_drawing = load("waybook.dag.diagram.svg:export_drawing")
    for form, where in exports.items():
        try:
            with click.open_file(where, "w", encoding="utf-8") as target:
                target.write(export_drawing(form, drawing))
        except OSError as error:
            hint = f"--{form}"
            raise click.BadParameter(f"{where}: {error.strerror}", param_hint=hint) from None
        if where != "-":
            click.echo(f"written  {where}", err=True)
