"""`waybook report` shows the progress of a run, `waybook map` the expected jobs of a workflow.

Both read a file: a snapshot that Waybook or another system exported, or a workflow definition. They
need no database.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar, cast

import click
import orjson

from waybook.cli.diagram_files import export_options, pop_requested_exports, write_exports
from waybook.cli.inputs import MAX_SNAPSHOT_BYTES, check_size, read_all, read_lines, read_models
from waybook.cli.lazy import load
from waybook.cli.options import json_option
from waybook.cli.output import print_json
from waybook.cli.terminal.errors import print_error
from waybook.dag.definitions.source_text import decode_text, parse_definition
from waybook.dag.diagram.svg import drawing_from_snapshot
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError

_AnswerFunction = Callable[[bytes], Mapping[str, object]]
_AnswerT = TypeVar("_AnswerT")

_file_argument = click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
_lines_option = click.option(
    "--lines", is_flag=True, help="Read one snapshot per line; print one answer per line."
)


@click.command()
@_file_argument
@_lines_option
@json_option
def report_command(*, file: str, lines: bool, as_json: bool) -> None:
    """Show the progress of a run snapshot.

    No database is used. FILE is a snapshot in JSON, or - for stdin. When stdout is not a terminal,
    answers and errors are printed as JSON, and an error sets exit code 1. With --lines, an error is
    printed in place of the answer to its line.
    """

    def answer(text: bytes) -> Mapping[str, object]:
        return cast("Mapping[str, object]", report_from_snapshot(_read_json(text)))

    if lines:
        _answer_lines(answer, file)
    else:
        _answer_file(answer, file, "report_display", as_json=as_json)


@click.command()
@_file_argument
@click.option(
    "--models",
    metavar="N|NAMES",
    callback=read_models,
    help="How many models the first stage has, or which (a,b,c), if the file does not say.",
)
@export_options
@_lines_option
@json_option
def map_command(
    *, file: str, models: tuple[str, ...], lines: bool, as_json: bool, **flags: object
) -> None:
    """Validate a workflow and show its jobs.

    No database is used. FILE is a definition in YAML or JSON, a snapshot in JSON, or - for stdin.
    When stdout is not a terminal, answers and errors are printed as JSON, and an error sets exit
    code 1. With --lines, each line of FILE is a definition or snapshot in JSON, and gets one line
    with its answer or error. A picture of a snapshot shows the progress of its run.
    """

    def answer(read: Callable[[bytes], object], text: bytes) -> Mapping[str, object]:
        return cast("Mapping[str, object]", map_from_snapshot(read(text), models))

    exports = pop_requested_exports(flags)
    if exports and lines:
        raise click.UsageError("a picture shows one map; leave out --lines")
    if exports:
        text = read_all(file, MAX_SNAPSHOT_BYTES)
        drawing = _answer_or_faults(lambda text: drawing_from_snapshot(_read(text), models), text)
        write_exports(drawing, exports)
    elif lines:
        _answer_lines(partial(answer, _read_json), file)
    else:
        _answer_file(partial(answer, _read), file, "map_display", as_json=as_json)


def _read_json(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"this is not JSON: {error}") from None


def _read(text: bytes) -> object:
    try:
        return _read_json(text)
    except InvalidInput:
        return parse_definition(decode_text(text))


def _answer_lines(answer: _AnswerFunction, file: str) -> None:
    for line in read_lines(file, MAX_SNAPSHOT_BYTES):
        _tell(answer, partial(check_size, line, MAX_SNAPSHOT_BYTES))


def _answer_file(answer: _AnswerFunction, file: str, display: str, *, as_json: bool) -> None:
    """Print the answer for the whole file: on a terminal as a drawing, otherwise as JSON.

    `display` is the name of the function that draws the answer.
    """
    if is_interactive(as_json=as_json):
        body = _answer_or_faults(answer, read_all(file, MAX_SNAPSHOT_BYTES))
        console = load("waybook.cli.terminal.console:SafeConsole")()
        draw = load(f"waybook.cli.terminal.workflow_views:{display}")
        console.print(draw(body, console.width))
    elif _tell(answer, partial(read_all, file, MAX_SNAPSHOT_BYTES)):
        sys.exit(1)


def _answer_or_faults(answer: Callable[[bytes], _AnswerT], text: bytes) -> _AnswerT:
    try:
        return answer(text)
    except BadRecipe as refused:
        for error in map(as_object, as_list(refused.details.get("faults"))):
            print_error(f"{error['at']}: {error['message']}", None)
        sys.exit(1)


def is_interactive(*, as_json: bool) -> bool:
    return not as_json and sys.stdout.isatty()


def _tell(answer: _AnswerFunction, read: Callable[[], bytes]) -> bool:
    """Print the answer or an error. Return whether it was an error."""
    try:
        body, refused = answer(read()), False
    except WaybookError as error:
        body, refused = error.as_json(), True
    print_json(body, tight=True)
    return refused
