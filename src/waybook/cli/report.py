"""`waybook report`: where a run of any system stands, by its snapshot."""

from collections.abc import Mapping
from typing import cast

import click

from waybook.cli.answers import answer_all, answer_each_line, file, lines, read_json
from waybook.cli.options import as_json
from waybook.dag.snapshot import report_of

PICTURE = "waybook.cli.report_picture:show"


@click.command()
@file
@lines
@as_json
def command(*, file: str, lines: bool, as_json: bool) -> None:
    """Show where a run of any system stands.

    FILE is a snapshot in JSON, or - for stdin; no database is needed. Away from a terminal the
    answer is JSON, and so is an error: with exit code 1, or with --lines on its line.
    """
    if lines:
        answer_each_line(_answer, file)
    else:
        answer_all(_answer, file, PICTURE, as_json=as_json)


def _answer(text: bytes) -> Mapping[str, object]:
    return cast("Mapping[str, object]", report_of(read_json(text)))
