"""`waybook audit`: list entries, verify chains, and show a plan as of an earlier time."""

import asyncio
import contextlib
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.text import Text

from waybook.app.operations.anchors import AnchorCheck
from waybook.app.queries.audit import list_audit
from waybook.app.queries.plan import PlanAsOf, plan_as_of
from waybook.app.queries.plans import resolve_plan
from waybook.app.queries.runs import resolve_run
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
from waybook.cli.options import database_options, json_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app
from waybook.cli.terminal.audit_text import entries_table, plan_as_of_table
from waybook.errors import InvalidInput, NotFound
from waybook.json_values import Body
from waybook.settings import Settings


@click.group()
def group() -> None:
    """Read the audit, verify it, look back in time."""


@group.command("list")
@click.argument("plan", required=False, metavar="[PLAN|RUN]")
@click.option("--since", metavar="TIME", help="Only what happened since, such as 2030-01-31T08:00.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, help="At most so many (50).")
@json_option
@database_options
def list_command(
    *, plan: str | None, since: str | None, limit: int, as_json: bool, **flags: object
) -> None:
    """Who did what, newest first: of one plan or run, or of all."""
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
        subject = await _meant_subject(here, plan) if plan else None
        return await list_audit(here.call, subject, since=since, limit=limit)


@group.command("verify")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="An audit anchor or a backup: all of its chains must still be there.",
)
@json_option
@database_options
def verify_command(*, anchor: Path | None, as_json: bool, **flags: object) -> None:
    """Prove that nothing was changed behind the audit's back.

    Every chain of seals is recomputed, and every plan replayed from its entries and held against
    its rows. Ends with exit code 1, naming the first broken entry, if anything is wrong, and with
    3 if there is no entry at all.

    What is missing as a whole only an anchor can show. That of an embedded database is kept in the
    data directory, compared each time, and renewed if all is well.
    """
    settings = load_settings(flags)
    found = asyncio.run(verify_with_anchors(settings, anchor, bar=not as_json))
    if as_json:
        print_json(verification_json(found))
    else:
        show_verification(get_console(), found)
    sys.exit(found.exit_code)


@group.command("anchor")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file without comparing it first.")
@json_option
@database_options
def anchor_command(*, file: Path | None, force: bool, as_json: bool, **flags: object) -> None:
    """Keep the ends of all chains in a file outside the database.

    A file that is there is compared first, and stays as it is if something is missing; then the
    exit code is 1. Without a file, that of the embedded database in the data directory is meant.
    """
    settings = load_settings(flags)
    path = file or kept_anchor(settings)
    if path is None:
        raise click.UsageError("name a file for the anchor of a server of your own")
    done = asyncio.run(renew_anchor(settings, path, force=force))
    if isinstance(done, AnchorCheck):
        print_json(check_json(path, done)) if as_json else show_check(get_console(), path, done)
        sys.exit(BROKEN_EXIT)
    if as_json:
        print_json({"file": str(path), **done._asdict()})
        return
    said = f"{done.chains} chains with {done.entries} entries are anchored in {path}"
    get_console().print(Text.assemble(("✓ ", "green"), said))


@group.command("as-of")
@click.argument("plan")
@click.argument("moment", metavar="TIME|SEQ")
@json_option
@database_options
def as_of_command(*, plan: str, moment: str, as_json: bool, **flags: object) -> None:
    """The plan as it was at a time, or after the entry with this number."""
    settings = load_settings(flags)
    then = asyncio.run(_as_of(settings, plan, moment))
    if as_json:
        told = {"seq": then.last.seq, "at": then.last.at.isoformat(), "rows": then.rows}
        print_json(told)
        return
    get_console().print(plan_as_of_table(then))


async def _as_of(settings: Settings, plan: str, moment: str) -> PlanAsOf:
    async with open_app(settings) as here:
        plan_id = await _meant(here, plan)
        if moment.isdigit():
            return await plan_as_of(here.call, plan_id, seq=int(moment))
        return await plan_as_of(here.call, plan_id, at=read_time(moment))


async def _meant(here: AppSession, plan: str) -> str:
    return (await resolve_plan(here.call, plan)).id


async def _meant_subject(here: AppSession, text: str) -> str:
    """Return the id of the plan that matches the text, else of the run."""
    for meant in (resolve_plan, resolve_run):
        with contextlib.suppress(NotFound):
            return (await meant(here.call, text)).id
    raise NotFound(f"there is no plan and no run “{text}” here")


def read_time(text: str) -> datetime:
    """Parse a timestamp; without a time zone it is UTC.

    >>> read_time("2030-01-31 08:00").isoformat()
    '2030-01-31T08:00:00+00:00'

    Raises:
        InvalidInput: it is not a time.
    """
    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"“{text}” is not a time; write it like 2030-01-31T08:00") from None
    return told if told.tzinfo else told.replace(tzinfo=UTC)
