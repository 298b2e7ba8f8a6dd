"""`waybook import`: load a plan or run from a file."""

import asyncio

import click
import orjson
from rich.text import Text

from waybook.app.operations.imports import ExportFile, import_export, is_export, read_export
from waybook.cli.inputs import MEBIBYTE, STDIN, read_all
from waybook.cli.options import database_options, json_option, org_option
from waybook.cli.output import print_json
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.errors import InvalidInput
from waybook.json_values import Body
from waybook.settings import Settings

#: Maximum size in bytes of a complete export; a run of 10,000 jobs takes about 60 MiB.
MAX_EXPORT_BYTES = 256 * MEBIBYTE


@click.command()
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@click.option("--dry-run", is_flag=True, help="Check and show the content; write nothing.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@org_option
@json_option
@database_options
def command(
    *, file: str, dry_run: bool, yes: bool, org: str | None, as_json: bool, **flags: object
) -> None:
    """Import a plan or run from a complete JSON export.

    An export (`waybook export --format json`) is loaded with its ids and its audit chain; an
    administrator may do this. FILE can be - for standard input, which then needs --yes.
    """
    settings = load_settings(flags)
    export = read_export(_read_json(read_all(file, MAX_EXPORT_BYTES)))
    if not as_json:
        _show_export(export)
    if dry_run or not confirm(f"Import this {export.kind}?", file, yes=yes):
        click.echo("Nothing was written.", err=True)
    else:
        asyncio.run(_import_export(settings, org, export))
        if not as_json:
            get_console().print(Text.assemble(("✓ ", "green"), f"imported {export.id}"))
    if as_json:
        counts = {kind: len(rows) for kind, rows in export.rows.items()}
        body = {"kind": export.kind, "id": export.id, "name": export.name, "rows": counts}
        print_json({**body, "auditEntries": len(export.entries), "written": not dry_run})


def _read_json(data: bytes) -> Body:
    try:
        value: Body = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"line {error.lineno}: this is not JSON: {error.msg}") from None
    if not is_export(value):
        raise InvalidInput("this is not an export of Waybook; write one with: waybook export")
    return value


def _show_export(export: ExportFile) -> None:
    console = get_console()
    console.print(Text.assemble((export.kind, "dim"), "  ", (export.name, "bold")))
    console.print(Text(f"id    {export.id}"))
    counts = ", ".join(f"{kind} {len(rows)}" for kind, rows in export.rows.items())
    console.print(Text(f"rows  {counts}"))
    console.print(Text(f"audit {len(export.entries)} entries, chain and replay verified"))


def confirm(question: str, file: str, *, yes: bool) -> bool:
    """Return whether the user agrees to write.

    Raises:
        InvalidInput: the file is read from standard input, so there is no answer to read.
    """
    if yes:
        return True
    if file == STDIN:
        raise InvalidInput("the file is read from standard input; add --yes, or --dry-run")
    return click.confirm(question)


async def _import_export(settings: Settings, org: str | None, export: ExportFile) -> None:
    async with open_app(settings) as here:
        await import_export(await here.for_org(org), export)
