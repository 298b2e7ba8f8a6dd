"""`waybook import`: loads a plan from another tool's file, or a complete export of Waybook."""

from contextlib import closing

import click
import orjson
from rich.text import Text

from waybook.app.operations.imports import ExportFile, import_export, is_export, read_export
from waybook.cli.inputs import MEBIBYTE, STDIN, read_all
from waybook.cli.options import database_options, json_option, org_option, yes_option
from waybook.cli.output import print_json
from waybook.cli.runtime import AppSession, get_console, load_settings, remote_of, run_in_app
from waybook.cli.terminal.console import plain_table, unwrapped
from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, decode, read_plan
from waybook.importers.steps import ImportedPlan, plan_arguments
from waybook.json_values import Body
from waybook.settings import Settings

#: The export of a run with 10,000 jobs takes about 60 MiB.
_MAX_EXPORT_BYTES = 256 * MEBIBYTE
_MAX_LINES_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice([str(form) for form in PlanFormat]),
    help="Format of the file (default: detected by its content).",
)
@click.option("--name", metavar="NAME", help="Name of the new plan (default: from the file).")
@click.option("--all", "include_done", is_flag=True, help="Import tasks that are done too.")
@click.option("--tag", metavar="TAG", help="Tag of a tasks.json (default: master).")
@click.option("--no-subtasks", is_flag=True, help="Keep subtasks of a tasks.json in the task.")
@click.option("--dry-run", is_flag=True, help="Check and show the content; write nothing.")
@yes_option
@org_option
@json_option
@database_options
def command(  # noqa: PLR0913 - one parameter for each option
    *,
    file: str,
    form: str | None,
    name: str | None,
    include_done: bool,
    tag: str | None,
    no_subtasks: bool,
    dry_run: bool,
    yes: bool,
    org: str | None,
    as_json: bool,
    **flags: object,
) -> None:
    """Import a plan from a file, a tracker or an export.

    Tasks become the steps of a new plan, which is shown before it is written. A complete JSON
    export (`waybook export --format json`) is loaded with its ids and its audit chain, by an
    administrator. FILE is Markdown, Mermaid, or a file of Task Master, beads or GitHub; or - for
    standard input, which then needs --yes or --dry-run.
    """
    settings = load_settings(flags)
    data = read_all(file, _MAX_EXPORT_BYTES)
    export = _read_export(data) if form is None else None
    if export is not None:
        _import_export(settings, org, export, file, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    plan = read_plan(
        decode(data),
        PlanFormat(form) if form else None,
        tag=tag,
        subtasks=not no_subtasks,
        include_done=include_done,
    )
    plan = plan._replace(name=name) if name else plan
    if not as_json:
        _show_plan(plan)
    counts: Body = {
        "leftOut": plan.left_out,
        "ignored": plan.ignored,
        "unreadLines": [*plan.unread[:_MAX_LINES_SHOWN]],
        "pullRequests": plan.pull_requests,
    }
    is_confirmed = not dry_run and confirm("Create this plan?", file, yes=yes)
    arguments = plan_arguments(plan)
    create_plan(settings, org, arguments, counts, write=is_confirmed, as_json=as_json)


def create_plan(
    settings: Settings, org: str | None, arguments: Body, more: Body, *, write: bool, as_json: bool
) -> None:
    """Create the plan if `write` is set. Print it in both cases."""

    async def create(here: AppSession) -> str:
        caller = (await here.for_org(org)).caller
        return str((await here.result("create_research_plan", arguments, caller))["planId"])

    remote = remote_of(settings) if org is None else None
    if not write:
        plan_id = ""
    elif remote is not None:
        with closing(remote):
            plan_id = remote.call("create_research_plan", arguments)["planId"]
    else:
        plan_id = run_in_app(settings, create)
    body: Body = {"kind": "plan", "id": plan_id or None, **arguments, **more}
    _report(body, plan_id, written=write, as_json=as_json)


def confirm(question: str, file: str, *, yes: bool) -> bool:
    """Ask whether to write the plan.

    Raises:
        InvalidInput: the plan was read from standard input, so the answer cannot come from there.
    """
    if yes:
        return True
    if file == STDIN:
        raise InvalidInput("the file is read from standard input; add --yes, or --dry-run")
    return click.confirm(question)


def _report(body: Body, subject_id: str, *, written: bool, as_json: bool) -> None:
    if as_json:
        print_json({**body, "written": written})
    elif written:
        get_console().print(Text.assemble(("✓ ", "green"), f"imported {subject_id}"))
    else:
        click.echo("Nothing was written.", err=True)


def _show_plan(plan: ImportedPlan) -> None:
    console = get_console()
    console.print(Text(plan.name, style="bold"))
    if plan.question != plan.name:
        console.print(Text(plan.question.split("\n")[0], style="dim"))
    table = plain_table(*map(unwrapped, ("#", "step", "type", "after", "line")))
    lines = plan.lines or (0,) * len(plan.steps)
    for order, (step, line) in enumerate(zip(plan.steps, lines, strict=True), start=1):
        after = ", ".join(map(str, step.depends_on))
        name = step.title or step.instructions.split("\n")[0]
        table.add_row(str(order), Text(name), str(step.type), after, str(line or ""))
    console.print(table)
    if plan.unread:
        shown = ", ".join(map(str, plan.unread[:_MAX_LINES_SHOWN]))
        more = " and more" if len(plan.unread) > _MAX_LINES_SHOWN else ""
        console.print(
            Text(f"not imported, because they belong to no task: lines {shown}{more}; indent them")
        )
    if plan.left_out:
        console.print(Text(f"{plan.left_out} done tasks are left out; --all imports them too"))
    if plan.pull_requests:
        console.print(Text(f"pull requests left out: {plan.pull_requests}"))
    if plan.ignored:
        console.print(Text(f"{plan.ignored} references to tasks outside the file are ignored"))


def _read_export(data: bytes) -> ExportFile | None:
    if data.lstrip()[:1] != b"{":
        return None
    try:
        value: Body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return read_export(value) if is_export(value) else None


def _import_export(
    settings: Settings,
    org: str | None,
    export: ExportFile,
    file: str,
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    counts = {kind: len(rows) for kind, rows in export.rows.items()}
    if not as_json:
        console = get_console()
        console.print(Text.assemble((export.kind, "dim"), "  ", (export.name, "bold")))
        console.print(Text(f"id    {export.id}"))
        console.print(Text(f"rows  {', '.join(f'{kind} {n}' for kind, n in counts.items())}"))
        console.print(Text(f"audit {len(export.entries)} entries, chain and replay verified"))

    async def load(here: AppSession) -> None:
        await import_export(await here.for_org(org), export)

    written = not dry_run and confirm(f"Import this {export.kind}?", file, yes=yes)
    if written:
        run_in_app(settings, load)
    answer: Body = {
        "kind": export.kind,
        "id": export.id,
        "name": export.name,
        "rows": {**counts},
        "auditEntries": len(export.entries),
    }
    _report(answer, export.id, written=written, as_json=as_json)
