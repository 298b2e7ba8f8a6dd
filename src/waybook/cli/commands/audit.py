"""`waybook audit`: list entries, verify chains, and show a plan or run as it was earlier."""

import asyncio
import contextlib
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.text import Text

from waybook.app.operations.anchors import AnchorCheck
from waybook.app.operations.file_verification import verify_file
from waybook.app.queries.audit import list_audit
from waybook.app.queries.plans.as_of import SubjectAsOf, subject_as_of
from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.app.queries.runs.run_list import resolve_run
from waybook.cli.commands.anchoring import (
    BROKEN_EXIT,
    check_json,
    kept_anchor,
    renew_anchor,
    show_check,
    show_verification,
    verification_json,
    verify_with_anchors,
)
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app
from waybook.cli.terminal.audit_text import as_of_table, entries_table
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body
from waybook.settings import Settings

MAX_FILE_BYTES = 64 * 1024 * 1024


@click.group()
def group() -> None:
    """Read and verify the audit log, or view past states."""


@group.command("list")
@click.argument("plan", required=False, metavar="[PLAN|RUN]")
@click.option("--since", metavar="TIME", help="Start time, e.g. 2030-01-31T08:00.")
@limit_option(50)
@json_option
@database_options
def list_command(
    *, plan: str | None, since: str | None, limit: int, as_json: bool, **flags: object
) -> None:
    """List audit entries, newest first, for one plan or run or all."""
    settings = load_settings(flags)
    entries = asyncio.run(_entries(settings, plan, read_time(since) if since else None, limit))
    if as_json:
        print_json(entries)
        return
    console = get_console()
    console.print(entries_table(entries, one_plan=plan is not None))


async def _entries(
    settings: Settings, plan: str | None, since: datetime | None, limit: int
) -> list[Body]:
    async with open_app(settings) as here:
        subject = await _resolve_subject_id(here, plan) if plan else None
        return await list_audit(here.call, subject, since=since, limit=limit)


@group.command("verify")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--seal", metavar="HEX", help="Expected seal of the last entry of the file.")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Audit anchor or backup whose chains must all still exist.",
)
@json_option
@database_options
def verify_command(
    *, file: Path | None, seal: str | None, anchor: Path | None, as_json: bool, **flags: object
) -> None:
    """Verify the audit chain and replay it against the database.

    With FILE, verifies a shared snapshot or a JSON export instead, without a database.

    Recomputes every chain of seals, replays every plan from its entries and compares the result
    with its rows. Exits with code 1 and names the first broken entry if anything is wrong; exits
    with code 3 if there are no entries.

    Only an anchor reveals chains that are missing entirely. The anchor of an embedded database is
    in the data directory; it is compared each time, and renewed if verification succeeds.
    """
    if file is not None:
        _verify_file(file, seal, as_json=as_json)
        return
    if seal is not None:
        raise click.UsageError("--seal needs a FILE to compare with")
    settings = load_settings(flags)
    verification = asyncio.run(verify_with_anchors(settings, anchor, bar=not as_json))
    if as_json:
        print_json(verification_json(verification))
    else:
        show_verification(get_console(), verification)
    sys.exit(verification.exit_code)


def _verify_file(file: Path, seal: str | None, *, as_json: bool) -> None:
    if not file.is_file():
        raise InvalidInput(f"there is no file {file}; name a snapshot or a JSON export")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise InvalidInput(f"{file} has over {MAX_FILE_BYTES:,} bytes, too many to be verified")
    try:
        verified = verify_file(file.read_bytes(), seal)
    except InvalidInput as error:
        if as_json:
            print_json({"ok": False, "file": str(file), "error": error.message})
        else:
            get_console().print(Text.assemble(("✗ ", "red"), f"{file}: {error.message}"))
        sys.exit(BROKEN_EXIT)
    if as_json:
        print_json({"ok": True, "file": str(file), **asdict(verified)})
        return
    message = (
        f"{verified.kind} “{verified.name}” is intact as of entry {verified.entries}, "
        f"{verified.at}\n  seal {verified.seal}"
    )
    get_console().print(Text.assemble(("✓ ", "green"), message))
    if seal is None:
        get_console().print("  Compare the seal with the one from the sender, or use --seal.")


@group.command("anchor")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file without comparing it first.")
@json_option
@database_options
def anchor_command(*, file: Path | None, force: bool, as_json: bool, **flags: object) -> None:
    """Write the last seal of every chain to a file outside the database.

    An existing file is compared first; if a chain is missing, the file is not changed and the exit
    code is 1. Default: the anchor file of the embedded database in the data directory.
    """
    settings = load_settings(flags)
    path = file or kept_anchor(settings)
    if path is None:
        raise click.UsageError("With a database URL, name the FILE to write the anchor to.")
    done = asyncio.run(renew_anchor(settings, path, force=force))
    if isinstance(done, AnchorCheck):
        print_json(check_json(path, done)) if as_json else show_check(get_console(), path, done)
        sys.exit(BROKEN_EXIT)
    if as_json:
        print_json({"file": str(path), **done._asdict()})
        return
    message = f"{done.chains} chains with {done.entries} entries are anchored in {path}"
    get_console().print(Text.assemble(("✓ ", "green"), message))


@group.command("as-of")
@click.argument("plan", metavar="PLAN|RUN")
@click.argument("moment", metavar="TIME|SEQ")
@json_option
@database_options
def as_of_command(*, plan: str, moment: str, as_json: bool, **flags: object) -> None:
    """Show a plan or run as of a time or an audit entry number."""
    settings = load_settings(flags)
    then = asyncio.run(_as_of(settings, plan, moment))
    if as_json:
        payload = {"seq": then.last.seq, "at": then.last.at.isoformat(), "rows": then.rows}
        print_json(payload)
        return
    get_console().print(as_of_table(then))


async def _as_of(settings: Settings, plan: str, moment: str) -> SubjectAsOf:
    async with open_app(settings) as here:
        subject_id = await _resolve_subject_id(here, plan)
        if moment.isdigit():
            return await subject_as_of(here.call, subject_id, seq=int(moment))
        return await subject_as_of(here.call, subject_id, at=read_time(moment))


async def _resolve_subject_id(here: AppSession, text: str) -> str:
    for resolve in (resolve_plan, resolve_run):
        with contextlib.suppress(NotFound):
            return (await resolve(here.call, text)).id
    raise NotFound(f"no plan or run matches “{text}”")


def read_time(text: str) -> datetime:
    """Parse a timestamp; without a time zone it is UTC.

    >>> read_time("2030-01-31 08:00").isoformat()
    '2030-01-31T08:00:00+00:00'

    Raises:
        InvalidInput: the text is not a timestamp.
    """
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
