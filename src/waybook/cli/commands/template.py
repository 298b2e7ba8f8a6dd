"""`waybook template`: list, show, save and use templates of plans."""

import asyncio
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from waybook.app.operations.plan_templates import saved_templates, templates_folder
from waybook.app.operations.private_file import private_file
from waybook.app.queries.plans.plan_list import resolve_plan
from waybook.cli.inputs import read_all
from waybook.cli.lazy import load
from waybook.cli.options import database_options, json_option, org_option
from waybook.cli.output import print_json, print_line, print_text
from waybook.cli.runtime import get_console, load_settings, open_app
from waybook.dag.definitions.source_text import MAX_BYTES, decode_text
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.errors import InvalidInput
from waybook.importers.templates import (
    SUFFIX,
    PlanTemplate,
    builtin_templates,
    check_name,
    fill_template,
    find_template,
    read_template,
    template_source,
    write_template,
)
from waybook.json_values import Body
from waybook.settings import Settings

EXPORT = "waybook.app.queries.plans.plan_export"
IMPORT = "waybook.cli.commands.import_plan"


@click.group()
def group() -> None:
    """Templates of plans: list, show, save, use."""


def _read_file(path: Path) -> PlanTemplate:
    return read_template(decode_text(read_all(str(path), MAX_BYTES)))


def _find(settings: Settings, name: str) -> PlanTemplate:
    if name.endswith((SUFFIX, ".yml", ".json")):
        return _read_file(Path(name))
    return find_template(name, saved_templates(settings.data_dir))


@group.command("list")
@json_option
@database_options
def list_command(*, as_json: bool, **flags: object) -> None:
    """List templates: those built in, and those you saved."""
    saved = saved_templates(load_settings(flags).data_dir)
    templates = {**builtin_templates(), **saved}
    if as_json:
        print_json([{**_as_json(t), "saved": t.name in saved} for t in templates.values()])
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("template", "parameters", "steps", "what it does"):
        table.add_column(heading)
    for name, template in sorted(templates.items()):
        parameters = ", ".join(p.name for p in template.parameters)
        steps = str(len(as_list(template.arguments["steps"])))
        table.add_row(name, parameters, steps, Text(template.description))
    get_console().print(table)


def _as_json(template: PlanTemplate) -> Body:
    return {
        "template": template.name,
        "description": template.description,
        "parameters": [
            {"name": p.name, "description": p.description, "default": p.default}
            for p in template.parameters
        ],
        **template.arguments,
    }


@group.command("show")
@click.argument("template")
@json_option
@database_options
def show_command(*, template: str, as_json: bool, **flags: object) -> None:
    """Show a template as text that can be saved and edited.

    TEMPLATE is a name, or a file that ends with .yaml or .json.
    """
    definition = _find(load_settings(flags), template)
    if as_json:
        print_json(_as_json(definition))
    else:
        print_text(template_source(definition))


@group.command("save")
@click.argument("plan")
@click.argument("name")
@click.option(
    "--set",
    "values",
    metavar="PARAMETER=TEXT",
    multiple=True,
    help="Replace this text of the plan by a parameter; may be repeated.",
)
@click.option("--description", metavar="TEXT", default="", help="What the template is for.")
@click.option("--output", "-o", metavar="FILE", help="File to write (default: NAME, saved).")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@database_options
def save_command(
    *, plan: str, name: str, values: tuple[str, ...], output: str | None, force: bool, **flags: str
) -> None:
    """Save the steps of a plan as a template.

    PLAN is an id, an id prefix, or part of the name. Results are not saved: steps, dependencies,
    result schemas and branching conditions are.
    """
    description = flags.pop("description")
    settings = load_settings({**flags})
    arguments = asyncio.run(_plan_arguments(settings, plan))
    text = write_template(check_name(name), description, arguments, read_values(values))
    read_template(text)
    folder = templates_folder(settings.data_dir)
    if output is None:
        folder.mkdir(parents=True, exist_ok=True)
    path = Path(output) if output else folder / f"{name}{SUFFIX}"
    with private_file(path, force=force) as file:
        file.write(text.encode())
    print_line(f"written  {path}", err=True)


async def _plan_arguments(settings: Settings, text: str) -> Body:
    async with open_app(settings) as here:
        plan = await resolve_plan(here.call, text)
        rows = await load(f"{EXPORT}:read_plan_rows")(here.call, plan.id)
        arguments: Body = load(f"{EXPORT}:plan_arguments")(rows)
        return arguments


def read_values(words: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or name in values:
            raise InvalidInput(f"write --set once for each parameter, like topic=rivers: {word}")
        values[name] = value
    return values


@group.command("use")
@click.argument("template")
@click.option(
    "--set",
    "values",
    metavar="PARAMETER=TEXT",
    multiple=True,
    help="Value of a parameter; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; write nothing.")
@click.option("--yes", is_flag=True, help="Skip the confirmation prompt.")
@org_option
@json_option
@database_options
def use_command(
    *, template: str, values: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool, **flags: str
) -> None:
    """Create a plan from a template.

    TEMPLATE is a name, or a file that ends with .yaml or .json.
    """
    org = flags.pop("org")
    settings = load_settings({**flags})
    arguments = fill_template(_find(settings, template), read_values(values))
    if not as_json:
        _show(arguments)
    plan_id = ""
    if not dry_run and load(f"{IMPORT}:confirm")("Create this plan?", template, yes=yes):
        plan_id = asyncio.run(load(f"{IMPORT}:create_plan")(settings, org, arguments))
    body: Body = {"kind": "plan", "id": plan_id or None, **arguments}
    load(f"{IMPORT}:report_import")(body, plan_id, written=bool(plan_id), as_json=as_json)


def _show(arguments: Body) -> None:
    console = get_console()
    console.print(Text(str(arguments["name"]), style="bold"))
    for order, item in enumerate(as_list(arguments["steps"]), start=1):
        step = as_object(item)
        after = ", ".join(map(str, as_list(step.get("dependsOn"))))
        name = str(step.get("title") or step.get("instructions", "")).split("\n")[0]
        console.print(Text(f"{order:3}  {name}{f'  (after {after})' if after else ''}"))
