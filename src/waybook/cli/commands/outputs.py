"""`waybook outputs` and `waybook output`: list, save or print the outputs of a plan."""

from datetime import datetime
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from waybook.app.queries.documents import file_name, plan_outputs, read_output
from waybook.app.queries.work_list import resolve_plan
from waybook.app.request.reply import output_view
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json, print_text, refuse_to_overwrite
from waybook.cli.runtime import (
    AppSession,
    Outcome,
    app_command,
    get_console,
    load_settings,
    run_in_app,
)
from waybook.cli.terminal.console import fitted_table, success
from waybook.core.durations import format_age
from waybook.core.file_names import unique_name
from waybook.plan.model import Output
from waybook.plan.progress import latest

_MIN_WIDTH_FOR_DETAILS = 120


@app_command(
    click.argument("plan", required=False),
    click.option("--versions", is_flag=True, help="Include all versions."),
    click.option(
        "--save",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Write the outputs to this folder.",
    ),
    click.option("--force", is_flag=True, help="Overwrite existing files."),
    people=True,
)
async def command(
    here: AppSession, plan: str | None, save: Path | None, *, versions: bool, force: bool
) -> Outcome:
    """List the outputs of a plan, or write them into a folder.

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open.
    """
    found = await resolve_plan(here.call, plan)
    _, outputs = await plan_outputs(here.call, found.id)
    listed = outputs if versions else latest(outputs)
    written = await _write(here, listed, save, force=force) if save else {}
    files = {output_id: {"file": str(path)} for output_id, path in written.items()}
    value = [{**output_view(output), **files.get(output.id, {})} for output in listed]
    if not listed:
        return Outcome(value, ["No outputs yet."])
    if save is not None:
        return Outcome(value, [success(f"{len(written)} files written to {save}")])
    return Outcome(value, [_table(listed, found.now)])


def _table(listed: list[Output], now: datetime) -> Table:
    width = get_console().width
    is_wide = width >= _MIN_WIDTH_FOR_DETAILS
    heads = ["output", "title", "version", *(["type", "by"] if is_wide else []), "when"]
    rows = [
        [
            *map(Text, (output.id, output.title, str(output.version))),
            *([Text(output.media_type), Text(output.created_by)] if is_wide else []),
            Text(format_age(output.created_at, now), style="dim"),
        ]
        for output in listed
    ]
    return fitted_table(heads, rows, width, least=12)


@click.command()
@click.argument("output")
@json_option
@database_options
def output_command(*, output: str, as_json: bool, **flags: object) -> None:
    """Print one output of a plan.

    OUTPUT is an output id. Prints the stored text unchanged.
    """
    detail = run_in_app(
        load_settings(flags), lambda here: read_output(here.call, output), people=True
    )
    if not as_json:
        print_text(detail.content)
        return
    payload = {
        "outputId": detail.output_id,
        "planId": detail.plan_id,
        "title": detail.title,
        "mediaType": detail.media_type,
        "version": detail.version,
        "createdAt": detail.created_at.isoformat(),
        "createdBy": detail.created_by,
        "content": detail.content,
    }
    print_json(payload)


async def _write(
    here: AppSession, listed: list[Output], save: Path, *, force: bool
) -> dict[str, Path]:
    taken: set[str] = set()
    paths: dict[str, Path] = {}
    for output in listed:
        name, _, ending = file_name(output).rpartition(".")
        paths[output.id] = save / f"{unique_name(name, taken)}.{ending}"
    if not force:
        refuse_to_overwrite(paths.values())
    for output_id, path in paths.items():
        detail = await read_output(here.call, output_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(detail.content.encode())
    return paths
