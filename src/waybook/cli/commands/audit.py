"""`waybook audit`: list entries, verify chains, and show a plan or run as it was earlier."""

import click

from waybook.app.queries.audit import SubjectAsOf, list_audit, subject_as_of
from waybook.app.queries.work_list import resolve_plan_or_run
from waybook.cli.inputs import read_time
from waybook.cli.options import database_options, json_option, limit_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, run_in_app
from waybook.cli.terminal.audit_text import as_of_table, entries_table
from waybook.json_values import Body


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
    settings, start = load_settings(flags), read_time(since) if since else None

    async def read(here: AppSession) -> list[Body]:
        subject = await resolve_plan_or_run(here.call, plan) if plan else None
        return await list_audit(here.call, subject, since=start, limit=limit)

    entries = run_in_app(settings, read)
    if as_json:
        print_json(entries)
    else:
        get_console().print(entries_table(entries, one_plan=plan is not None))


@click.command("as-of")
@click.argument("plan", metavar="PLAN|RUN")
@click.argument("moment", metavar="TIME|SEQ")
@json_option
@database_options
def as_of_command(*, plan: str, moment: str, as_json: bool, **flags: object) -> None:
    """Show a plan or run as of a time or an audit entry number."""

    async def read(here: AppSession) -> SubjectAsOf:
        subject_id = await resolve_plan_or_run(here.call, plan)
        if moment.isdigit():
            return await subject_as_of(here.call, subject_id, seq=int(moment))
        return await subject_as_of(here.call, subject_id, at=read_time(moment))

    then = run_in_app(load_settings(flags), read)
    if as_json:
        print_json({"seq": then.last.seq, "at": then.last.at.isoformat(), "rows": then.rows})
    else:
        get_console().print(as_of_table(then))
