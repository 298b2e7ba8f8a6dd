"""`waybook outputs` and `waybook output`: list, save or print the outputs of a plan."""

from pathlib import Path

import click

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
from waybook.cli.terminal.console import success
from waybook.cli.terminal.rows import Column, age_column, table_lines
from waybook.core.file_names import unique_name
from waybook.json_values import fields_of
from waybook.plan.model import Output
from waybook.plan.progress import latest

_COLUMNS = (
    Column("output", lambda row: row["outputId"]),
    Column("title", lambda row: row["title"]),
    Column("version", lambda row: str(row["version"])),
    age_column("when", "createdAt"),
    Column("type", lambda row: row["mediaType"]),
    Column("by", lambda row: row["createdBy"]),
)


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
    """List or save the outputs of a plan.

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
    rows = [{**row, "now": found.now.isoformat()} for row in value]
    return Outcome(value, table_lines(rows, _COLUMNS, get_console().width))


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
    about = "output_id plan_id title media_type version created_at created_by content"
    print_json(fields_of(detail, about))


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
