"""`waybook export`: writes a plan or run as a Markdown report, JSON, Mermaid or CSV."""

import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from waybook.app.operations.private_file import private_file
from waybook.app.queries.diagrams import plan_drawing, run_drawing
from waybook.app.queries.plans.plan import PlanInclude, read_plan_detail
from waybook.app.queries.runs.run import RunInclude, read_run_detail
from waybook.app.queries.timeline import plan_timeline, run_timeline
from waybook.app.queries.work_export import (
    export_json,
    plan_report_text,
    read_plan_rows,
    read_run_report,
    read_run_rows,
)
from waybook.app.queries.work_list import resolve_plan, resolve_run
from waybook.app.request.request_context import RequestContext
from waybook.cli.inputs import STDIN
from waybook.cli.options import database_options, force_option, org_option
from waybook.cli.output import print_line, print_text
from waybook.cli.runtime import AppSession, load_settings, run_in_app
from waybook.dag.diagram.svg import export_drawing
from waybook.dag.model import DrawingFormat
from waybook.errors import InvalidInput, NextCall, NotFound

STDOUT: Final = STDIN


@click.command()
@click.argument("subject", metavar="[PLAN|RUN]", required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["markdown", "json", "mermaid", "csv"]),
    default="markdown",
    help="Markdown report, complete JSON, Mermaid map, or CSV timeline (default: markdown).",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default=STDOUT,
    help="File to write (default: standard output).",
)
@force_option
@org_option
@database_options
def command(
    *, subject: str | None, form: str, output: str, force: bool, org: str | None, **flags: object
) -> None:
    """Export a plan or run: Markdown, JSON, Mermaid or CSV.

    The JSON export is complete: it has all rows, texts and audit entries, and `waybook import` can
    load it into another org or database. The CSV timeline has one line for each interval of work.
    """

    async def export(here: AppSession) -> None:
        ctx = await here.for_org(org)
        plan_id, run_id = await _resolve(ctx, subject)
        parts = _parts(ctx, plan_id, run_id, form)
        if output != STDOUT:
            with private_file(Path(output), force=force) as file:
                async for part in parts:
                    file.write(part)
            print_line(f"written  {output}", err=True)
        elif form == "json" and not sys.stdout.isatty():
            async for part in parts:
                click.echo(part, nl=False)
        else:
            print_text(b"".join([part async for part in parts]).decode())

    run_in_app(load_settings(flags), export, people=True)


async def _resolve(ctx: RequestContext, text: str | None) -> tuple[str, str]:
    """Return the ids of the matching plan and run. Only one matches; the other id is empty.

    Raises:
        NotFound: neither a plan nor a run matches.
        InvalidInput: more than one plan or run matches.
    """
    plan_id = run_id = ""
    with suppress(NotFound):
        plan_id = (await resolve_plan(ctx, text)).id
    if text is None or text != plan_id:
        with suppress(NotFound):
            run_id = (await resolve_run(ctx, text)).id
    if plan_id and run_id:
        both = f"the plan {plan_id} and the run {run_id}"
        raise InvalidInput(f"{both} match; name one by its id")
    if not plan_id and not run_id:
        named = f"no plan or run matches “{text}”" if text else "no plan or run is open"
        raise NotFound(named, next_call=NextCall("list_active_plans", {}, "see the plans"))
    return plan_id, run_id


async def _parts(ctx: RequestContext, plan_id: str, run_id: str, form: str) -> AsyncIterator[bytes]:
    """Yield the export of the plan or, if `plan_id` is empty, of the run."""
    match form:
        case "json":
            rows = await (read_plan_rows(ctx, plan_id) if plan_id else read_run_rows(ctx, run_id))
            async for part in export_json(ctx, rows):
                yield part
            return
        case "markdown" if plan_id:
            text = plan_report_text(await read_plan_rows(ctx, plan_id))
        case "markdown":
            text = await read_run_report(ctx, await read_run_detail(ctx, run_id, RunInclude.ALL))
        case "csv" if plan_id:
            text = await plan_timeline(ctx, plan_id)
        case "csv":
            exported = await read_run_rows(ctx, run_id)
            text = run_timeline(exported.rows, exported.now)
        case _:
            drawing = (
                plan_drawing(await read_plan_detail(ctx, plan_id, PlanInclude.NAMES))
                if plan_id
                else run_drawing(await read_run_detail(ctx, run_id, RunInclude.NOTHING))
            )
            text = export_drawing(DrawingFormat.MERMAID, drawing)
    yield text.encode()
