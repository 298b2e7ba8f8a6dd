"""`waybook report`: shows the progress of a run that Waybook or another system exported."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar, cast

import click
import orjson

from waybook.cli.inputs import MAX_SNAPSHOT_BYTES, check_size, read_all, read_lines
from waybook.cli.lazy import load
from waybook.cli.options import json_option
from waybook.cli.output import print_json
from waybook.cli.terminal.errors import print_error
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.dag.snapshots.snapshot import report_from_snapshot
from waybook.errors import BadRecipe, InvalidInput, WaybookError

_AnswerFunction = Callable[[bytes], Mapping[str, object]]
_AnswerT = TypeVar("_AnswerT")

file = click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
lines = click.option(
    "--lines", is_flag=True, help="Read one snapshot per line; print one answer per line."
)


def read_json(text: bytes) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"this is not JSON: {error}") from None


def answer_lines(answer: _AnswerFunction, file: str) -> None:
    for line in read_lines(file, MAX_SNAPSHOT_BYTES):
        _tell(answer, partial(check_size, line, MAX_SNAPSHOT_BYTES))


def answer_file(answer: _AnswerFunction, file: str, drawn_by: str, *, as_json: bool) -> None:
    """Print the answer for the whole file: on a terminal as a drawing, otherwise as JSON.

    `drawn_by` names the function that draws the answer.
    """
    if is_interactive(as_json=as_json):
        load(drawn_by)(answer_or_faults(answer, read_all(file, MAX_SNAPSHOT_BYTES)))
    elif _tell(answer, partial(read_all, file, MAX_SNAPSHOT_BYTES)):
        sys.exit(1)


def answer_or_faults(answer: Callable[[bytes], _AnswerT], text: bytes) -> _AnswerT:
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


DISPLAY = "waybook.cli.terminal.workflow_views:print_report"


@click.command()
@file
@lines
@json_option
def command(*, file: str, lines: bool, as_json: bool) -> None:
    """Report progress from a run snapshot (no database).

    FILE is a snapshot in JSON, or - for stdin. When stdout is not a terminal, answers and errors
    are printed as JSON, and an error sets exit code 1. With --lines, an error is printed in place
    of the answer to its line.
    """

    def answer(text: bytes) -> Mapping[str, object]:
        return cast("Mapping[str, object]", report_from_snapshot(read_json(text)))

    if lines:
        answer_lines(answer, file)
    else:
        answer_file(answer, file, DISPLAY, as_json=as_json)
