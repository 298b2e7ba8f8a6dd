"""`waybook audit`: list entries, verify chains, and show a plan or run as it was earlier."""

import asyncio
import contextlib
from datetime import datetime

import click

from waybook.app.queries.audit import list_audit
from waybook.app.queries.plans.as_of import SubjectAsOf, subject_as_of
from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.app.queries.runs.run_list import resolve_run
from waybook.cli.inputs import read_time
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, open_app
from waybook.cli.terminal.audit_text import as_of_table, entries_table
from waybook.errors import NotFound
from waybook.json_values import Body
from waybook.settings import Settings


@click.command()
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


@click.command("as-of")
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
