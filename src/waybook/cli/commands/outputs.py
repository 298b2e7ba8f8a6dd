"""`waybook outputs` and `waybook output`: list, save or print the outputs of a plan."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Literal

import click
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from waybook.app.queries.documents import file_name, list_outputs, read_output
from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.app.request.caller import ReadableOutput
from waybook.app.request.reply import output_view
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json, print_text, refuse_to_overwrite
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app
from waybook.core.durations import format_age
from waybook.core.file_names import unique_name
from waybook.plan.output import Output, latest
from waybook.settings import Settings

MIN_WIDTH_FOR_DETAILS = 120
MIN_TITLE_WIDTH = 12


@click.command()
@click.argument("plan", required=False)
@click.option("--versions", is_flag=True, help="Include all versions.")
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the outputs to this folder.",
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
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

    PLAN is an id, an id prefix, or part of the name; optional if only one plan is open.
    """
    settings = load_settings(flags)
    listed, written, now = asyncio.run(_go(settings, plan, save, versions=versions, force=force))
    if as_json:
        payload = [_as_json(output, written) for output in listed]
        print_json(payload)
        return
    console = get_console()
    if save is not None and listed:
        console.print(Text.assemble(("✓ ", "green"), f"{len(written)} files written to {save}"))
    elif listed:
        console.print(_table(listed, now, console.width))
    else:
        console.print("No outputs yet.")


@click.command()
@click.argument("output")
@json_option
@database_options
def output_command(*, output: str, as_json: bool, **flags: object) -> None:
    """Print one output of a plan.

    OUTPUT is an output id. Prints the stored text unchanged.
    """
    detail = asyncio.run(_read(load_settings(flags), output))
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


async def _read(settings: Settings, output_id: str) -> ReadableOutput:
    async with open_app(settings) as here:
        return await read_output(here.call, output_id)


WrittenFile = dict[str, Path]


async def _go(
    settings: Settings, text: str | None, save: Path | None, *, versions: bool, force: bool
) -> tuple[list[Output], WrittenFile, datetime]:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        outputs = await list_outputs(here.call, plan.id)
        listed = outputs if versions else latest(outputs)
        written = await _write(here, listed, save, force=force) if save else {}
        return listed, written, plan.now


async def _write(here: AppSession, listed: list[Output], save: Path, *, force: bool) -> WrittenFile:
    taken: set[str] = set()
    paths = {output.id: save / _own_name(output, taken) for output in listed}
    if not force:
        refuse_to_overwrite(paths.values())
    for output_id, path in paths.items():
        detail = await read_output(here.call, output_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(detail.content.encode())
    return paths


def _own_name(output: Output, taken: set[str]) -> str:
    name, _, ending = file_name(output).rpartition(".")
    return f"{unique_name(name, taken)}.{ending}"


def _table(listed: list[Output], now: datetime, width: int) -> Table:
    wide = width >= MIN_WIDTH_FOR_DETAILS
    heads = ["output", "title", "version", *(["type", "by"] if wide else []), "when"]
    rows = [_row(output, now, wide=wide) for output in listed]
    taken = [
        max(cell_len(head), *(row[n].cell_len for row in rows)) for n, head in enumerate(heads)
    ]
    others = sum(taken[:1] + taken[2:]) + 2 * len(heads)
    taken[1] = min(taken[1], max(MIN_TITLE_WIDTH, width - others))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for head, cells in zip(heads, taken, strict=True):
        justify: Literal["left", "right"] = "right" if head == "version" else "left"
        table.add_column(head, no_wrap=True, overflow="ellipsis", width=cells, justify=justify)
    for row in rows:
        table.add_row(*row)
    return table


def _row(output: Output, now: datetime, *, wide: bool) -> list[Text]:
    return [
        Text(output.id),
        Text(output.title),
        Text(str(output.version)),
        *([Text(output.media_type), Text(output.created_by)] if wide else []),
        Text(format_age(output.created_at, now), style="dim"),
    ]


def _as_json(output: Output, written: WrittenFile) -> dict[str, object]:
    file = {"file": str(written[output.id])} if output.id in written else {}
    return {**output_view(output), **file}
