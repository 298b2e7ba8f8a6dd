"""`waybook outputs` and `waybook output`: list, save or print the outputs of a plan."""

import asyncio
from datetime import datetime
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from waybook.app.queries.documents import file_name, list_outputs, read_output
from waybook.app.queries.plans import resolve_plan
from waybook.app.request.caller import ReadableOutput
from waybook.app.request.reply import output_view
from waybook.cli.commands.documents import refuse_to_overwrite, unique_name
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json, print_text
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app
from waybook.core.durations import format_age
from waybook.plan.output import Output, latest
from waybook.settings import Settings


@click.command()
@click.argument("plan", required=False)
@click.option("--versions", is_flag=True, help="Every version, not only the last.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write them into this folder.",
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@json_option
@database_options
def command(
    *,
    plan: str | None,
    versions: bool,
    save: Path | None,
    force: bool,
    as_json: bool,
    **flags: object,
) -> None:
    """List the outputs of a plan, or write them into a folder.

    PLAN is its id, the beginning of it, or a part of its name; leave it away if only one is open.
    """
    settings = load_settings(flags)
    listed, written, now = asyncio.run(_go(settings, plan, save, versions=versions, force=force))
    if as_json:
        told = [_as_json(one, written) for one in listed]
        print_json(told)
        return
    console = get_console()
    if save is not None and listed:
        console.print(Text.assemble(("✓ ", "green"), f"{len(written)} files written to {save}"))
    elif listed:
        console.print(_table(listed, now))
    else:
        console.print("Nothing has been delivered yet.")


@click.command()
@click.argument("output")
@json_option
@database_options
def output_command(*, output: str, as_json: bool, **flags: object) -> None:
    """Print one output of a plan.

    OUTPUT is its id; the text comes as it was handed in.
    """
    found = asyncio.run(_read(load_settings(flags), output))
    if not as_json:
        print_text(found.content)
        return
    told = {
        "outputId": found.output_id,
        "planId": found.plan_id,
        "title": found.title,
        "mediaType": found.media_type,
        "version": found.version,
        "createdAt": found.created_at.isoformat(),
        "createdBy": found.created_by,
        "content": found.content,
    }
    print_json(told)


async def _read(settings: Settings, output_id: str) -> ReadableOutput:
    async with open_app(settings) as here:
        return await read_output(here.call, output_id)


WrittenFile = dict[str, Path]


async def _go(
    settings: Settings, text: str | None, save: Path | None, *, versions: bool, force: bool
) -> tuple[list[Output], WrittenFile, datetime]:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        found = await list_outputs(here.call, plan.id)
        listed = found if versions else latest(found)
        written = await _write(here, listed, save, force=force) if save else {}
        return listed, written, plan.now


async def _write(here: AppSession, listed: list[Output], save: Path, *, force: bool) -> WrittenFile:
    """Write every output, after checking that no existing file is overwritten."""
    taken: set[str] = set()
    paths = {one.id: save / _own_name(one, taken) for one in listed}
    if not force:
        refuse_to_overwrite(paths.values())
    for output_id, path in paths.items():
        found = await read_output(here.call, output_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found.content.encode())
    return paths


def _own_name(output: Output, taken: set[str]) -> str:
    name, _, ending = file_name(output).rpartition(".")
    return f"{unique_name(name, taken)}.{ending}"


def _table(listed: list[Output], now: datetime) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("output", no_wrap=True)
    table.add_column("title", overflow="fold")
    table.add_column("version", justify="right", no_wrap=True)
    table.add_column("type", no_wrap=True)
    table.add_column("by", no_wrap=True)
    table.add_column("when", no_wrap=True, style="dim")
    for one in listed:
        cells = (one.id, one.title, str(one.version), one.media_type, one.created_by)
        table.add_row(*(Text(cell) for cell in cells), format_age(one.created_at, now))
    return table


def _as_json(one: Output, written: WrittenFile) -> dict[str, object]:
    file = {"file": str(written[one.id])} if one.id in written else {}
    return {**output_view(one), **file}
