"""`waybook map`: check the structure of any workflow, and show the expected work."""

from collections.abc import Mapping
from typing import cast

import click

from waybook.cli.commands.report import (
    answer_file,
    answer_lines,
    answer_or_faults,
    file,
    lines,
    read_json,
)
from waybook.cli.diagram_files import (
    RequestedExports,
    export_options,
    pop_requested_exports,
    write_exports,
)
from waybook.cli.inputs import MAX_SNAPSHOT_BYTES, read_all, read_models
from waybook.cli.options import json_option
from waybook.dag.definitions.source_text import decode_text, parse_definition
from waybook.dag.diagram.svg import drawing_from_snapshot
from waybook.dag.snapshots.snapshot import map_from_snapshot
from waybook.errors import InvalidInput

DISPLAY = "waybook.cli.terminal.workflow_views:print_map"


@click.command()
@file
@click.option(
    "--models",
    metavar="N|NAMES",
    callback=read_models,
    help="How many models the first stage has, or which (a,b,c), if the file does not say.",
)
@export_options
@lines
@json_option
def command(
    *,
    file: str,
    models: tuple[str, ...],
    lines: bool,
    as_json: bool,
    **flags: object,
) -> None:
    """Validate a workflow and show its expected jobs (no database).

    FILE is a definition in YAML or JSON, a snapshot in JSON, or - for stdin. When stdout is not a
    terminal, answers and errors are printed as JSON, and an error sets exit code 1. With --lines,
    each line of FILE is a definition or snapshot in JSON, and gets one line with its answer or
    error. A picture of a snapshot shows the progress of its run.
    """
    exports = pop_requested_exports(flags)
    if exports:
        _draw(file, models, exports, lines=lines)
    elif lines:
        answer_lines(lambda text: _map(read_json(text), models), file)
    else:
        answer_file(lambda text: _map(_read(text), models), file, DISPLAY, as_json=as_json)


def _draw(
    file: str,
    models: tuple[str, ...],
    exports: RequestedExports,
    *,
    lines: bool,
) -> None:
    if lines:
        raise click.UsageError("a picture shows one map; leave out --lines")
    text = read_all(file, MAX_SNAPSHOT_BYTES)
    write_exports(
        answer_or_faults(lambda content: drawing_from_snapshot(_read(content), models), text),
        exports,
    )


def _map(content: object, models: tuple[str, ...]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", map_from_snapshot(content, models))


def _read(text: bytes) -> object:
    try:
        return read_json(text)
    except InvalidInput:
        return parse_definition(decode_text(text))
