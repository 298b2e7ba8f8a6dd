"""`waybook report`: where a run of any system stands, by its snapshot."""

from collections.abc import Mapping
from typing import cast

import click

from waybook.cli.answers import answer_file, answer_lines, file, lines, read_json
from waybook.cli.options import json_option
from waybook.dag.snapshot import report_from_snapshot

DISPLAY = "waybook.cli.report_picture:print_report"


@click.command()
@file
@lines
@json_option
def command(*, file: str, lines: bool, as_json: bool) -> None:
    """Show where a run of any system stands.

    FILE is a snapshot in JSON, or - for stdin; no database is needed. Away from a terminal the
    answer is JSON, and so is an error: with exit code 1, or with --lines on its line.
    """
    if lines:
        answer_lines(_answer, file)
    else:
        answer_file(_answer, file, DISPLAY, as_json=as_json)


def _answer(text: bytes) -> Mapping[str, object]:
    return cast("Mapping[str, object]", report_from_snapshot(read_json(text)))
