"""`waybook template`: list, show, save and use templates of plans."""

from collections.abc import Mapping
from pathlib import Path

import click
import yaml
from rich.text import Text

from waybook.app.operations.private_file import private_file
from waybook.app.queries.work_list import resolve_plan
from waybook.cli.inputs import read_all
from waybook.cli.lazy import CommandGroup, load
from waybook.cli.options import (
    database_options,
    force_option,
    json_option,
    org_option,
    yes_option,
)
from waybook.cli.output import print_json, print_line, print_text
from waybook.cli.runtime import (
    AppSession,
    Outcome,
    get_console,
    load_settings,
    run_in_app,
    settings_command,
)
from waybook.cli.terminal.console import plain_table
from waybook.dag.definitions.source_text import MAX_BYTES, decode_text
from waybook.dag.snapshots.rows import as_list, as_object
from waybook.errors import InvalidInput
from waybook.importers.templates import (
    PlanTemplate,
    builtin_templates,
    fill_template,
    find_template,
    read_template,
    templates_in,
)
from waybook.json_values import Body
from waybook.settings import Settings

EXPORT = "waybook.app.queries.work_export"
_IMPORT = "waybook.cli.commands.import_plan"


def _templates(settings: Settings) -> Mapping[str, PlanTemplate]:
    return {**builtin_templates(), **templates_in(settings.data_dir / "templates")}


def _find(settings: Settings, name: str) -> PlanTemplate:
    if name.endswith((".yaml", ".yml", ".json")):
        return read_template(decode_text(read_all(name, MAX_BYTES)))
    return find_template(name, _templates(settings))


def _source(document: Body) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=96)


@settings_command()
def list_command(settings: Settings) -> Outcome:
    """List templates: those built in, and those you saved."""
    templates = _templates(settings)
    table = plain_table("template", "parameters", "steps", "what it does")
    for name, template in sorted(templates.items()):
        parameters = ", ".join(parameter.name for parameter in template.parameters)
        steps = str(len(as_list(template.document["steps"])))
        table.add_row(name, parameters, steps, Text(template.description))
    return Outcome([template.document for template in templates.values()], [table])


@click.command()
@click.argument("template")
@json_option
@database_options
def show_command(*, template: str, as_json: bool, **flags: object) -> None:
    """Show a template as text that can be saved and edited.

    TEMPLATE is a name, or a file that ends with .yaml or .json.
    """
    document = _find(load_settings(flags), template).document
    if as_json:
        print_json(document)
    else:
        print_text(_source(document))


@click.command()
@click.argument("plan")
@click.argument("name")
@click.option("--output", "-o", metavar="FILE", help="File to write (default: NAME, saved).")
@force_option
@database_options
def save_command(*, plan: str, name: str, output: str | None, force: bool, **flags: object) -> None:
    """Save the steps of a plan as a template, to which you can add parameters.

    PLAN is an id, an id prefix, or part of the name. Results are not saved: steps, dependencies,
    result schemas and branching conditions are.
    """
    settings = load_settings(flags)

    async def read(here: AppSession) -> Body:
        found = await resolve_plan(here.call, plan)
        rows = await load(f"{EXPORT}:read_plan_rows")(here.call, found.id)
        arguments: Body = load(f"{EXPORT}:plan_arguments")(rows)
        return arguments

    text = _source({"template": name, **run_in_app(settings, read)})
    read_template(text)
    path = Path(output) if output else settings.data_dir / "templates" / f"{name}.yaml"
    if output is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    with private_file(path, force=force) as file:
        file.write(text.encode())
    print_line(f"written  {path}", err=True)


@click.command()
@click.argument("template")
@click.option(
    "--set",
    "words",
    metavar="PARAMETER=TEXT",
    multiple=True,
    help="Value of a parameter; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan; write nothing.")
@yes_option
@org_option
@json_option
@database_options
def use_command(
    *, template: str, words: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool, **flags: str
) -> None:
    """Create a plan from a template.

    TEMPLATE is a name, or a file that ends with .yaml or .json.
    """
    org = flags.pop("org")
    settings = load_settings({**flags})
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name or name in values:
            raise InvalidInput(
                f"write --set NAME=VALUE once for each parameter; found --set {word}"
            )
        values[name] = value
    arguments = fill_template(_find(settings, template), values)
    if not as_json:
        console = get_console()
        console.print(Text(str(arguments["name"]), style="bold"))
        for order, step in enumerate(map(as_object, as_list(arguments["steps"])), start=1):
            after = ", ".join(map(str, as_list(step.get("dependsOn"))))
            title = str(step.get("title") or step.get("instructions", "")).split("\n")[0]
            console.print(Text(f"{order:3}  {title}{f'  (after {after})' if after else ''}"))
    confirm, create = (load(f"{_IMPORT}:{name}") for name in ("confirm", "create_plan"))
    is_confirmed = not dry_run and confirm("Create this plan?", template, yes=yes)
    create(settings, org, arguments, {}, write=is_confirmed, as_json=as_json)


group = CommandGroup(
    help="Templates of plans: list, show, save, use.",
    commands={
        "list": list_command,
        "show": show_command,
        "save": save_command,
        "use": use_command,
    },
)
