"""Generated parts of documentation pages: tool arguments, settings, commands, tables, diagrams.

A part is the text between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import click
from pydantic import BaseModel

from waybook.app.registry import TOOLS
from waybook.app.request.plan_arguments import (
    ActionParams,
    BudgetFields,
    ConditionArgument,
    StepArgument,
    UsageFields,
)
from waybook.app.tools.plans.edit import ModificationArgument
from waybook.app.tools.research.stored_research import SourceArgument
from waybook.app.tools.runs.jobs import DocumentArgument
from waybook.cli.app import app
from waybook.cli.operator.serve import command as serve
from waybook.plan.model import PLAN_MOVES, STEP_MOVES
from waybook.settings import Settings
from waybook.transport.http.metrics import FAMILIES

PART = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

STRUCTURES: Mapping[str, type[BaseModel]] = {
    "step": StepArgument,
    "condition": ConditionArgument,
    "action parameters": ActionParams,
    "modification": ModificationArgument,
    "document": DocumentArgument,
    "source": SourceArgument,
    "usage": UsageFields,
    "budget": BudgetFields,
}
#: Texts for the types of these arguments. For other arguments, the text follows from the JSON
#: Schema.
LINKED = {
    "steps": "list of [steps](#a-step)",
    "branchingConditions": "list of [conditions](#a-condition)",
    "actionParams": "[action parameters](#action-parameters)",
    "modifications": "list of [modifications](#a-modification)",
    "resultSchema": "JSON Schema",
    "schema": "JSON Schema",
    "dependsOn": "list of whole numbers, orders of steps",
    "sources": "list of [sources](#a-source)",
    "documents": "list of [documents](#a-document)",
    "usage": "[usage](#usage)",
    "budget": "[budget](#a-budget)",
    "definition": "[definition](../how-to/write-a-dag.md), as JSON",
}


MACHINES: Mapping[str, Mapping[Any, frozenset[Any]]] = {"plan": PLAN_MOVES, "step": STEP_MOVES}


# Functions for diagrams


def diagram(moves: Mapping[Any, frozenset[Any]]) -> str:
    """Return a state machine as a Mermaid diagram, which begins with the first status."""
    lines = ["```mermaid", "stateDiagram-v2", f"  [*] --> {next(iter(moves))}"]
    for old, following in moves.items():
        lines += [f"  {old} --> {new}" for new in moves if new in following]
        lines += [f"  {old} --> [*]"] if not following else []
    return "\n".join([*lines, "```"])


# Functions for arguments


def arguments(kind: type[BaseModel]) -> str:
    """Return a Markdown table of arguments: name, type with limits, and whether it is required."""
    schema = kind.model_json_schema()
    required = schema.get("required", [])
    rows = [
        f"| `{name}` | {type_text(name, argument, schema.get('$defs', {}))} "
        f"| {'yes' if name in required else ''} |"
        for name, argument in schema.get("properties", {}).items()
    ]
    rows.sort(key=lambda row: (not row.endswith("yes |"), "sessionId" in row, "idempot" in row))
    if not rows:
        return "It takes no arguments."
    return "\n".join(["| argument | kind | needed |", "|---|---|---|", *rows])


def type_text(name: str, schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """Return the type of an argument as a text."""
    plain = resolve(schema, defs)
    if name in LINKED:
        return LINKED[name]
    if "enum" in plain:
        return ", ".join(f"`{word}`" for word in plain["enum"])
    if "properties" in plain:
        return "object with " + ", ".join(f"`{inner}`" for inner in plain["properties"])
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "array": "list of texts",
        "object": "object",
    }
    return words.get(plain.get("type", ""), "any JSON") + limits(plain, schema)


def resolve(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a JSON Schema with its `$ref` resolved, and without the alternative null."""
    if "$ref" in schema:
        return resolve(defs[schema["$ref"].rsplit("/", 1)[1]], defs)
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return resolve(option, defs)
    return schema


def limits(schema: Mapping[str, Any], outer: Mapping[str, Any]) -> str:
    """Return the limits and the default value of an argument as a text."""
    parts = []
    for keyword, words in (
        ("maxLength", "at most {:,} characters"),
        ("exclusiveMinimum", "above {:g}"),
        ("minimum", "at least {:g}"),
        ("maximum", "at most {:,}"),
    ):
        if keyword in schema:
            parts.append(words.format(schema[keyword]))
    default = outer.get("default")
    parts += [f"otherwise {str(default).lower()}"] if default is not None else []
    return "".join(f", {part}" for part in parts)


# Functions for settings, commands and tables


def setting(name: str) -> str:
    """Return a sentence about a setting, with its flag, environment variable and default value."""
    field = next(field for field in fields(Settings) if field.name == name)
    flags = {param.name for param in serve.params}
    sources = [f"the environment variable `WAYBOOK_{name.upper()}`"]
    if name in flags:
        sources.insert(0, f"the flag `--{name.replace('_', '-')}`")
    is_set = field.default not in {None, ""}
    default = DEFAULTS.get(name) or (f"`{field.default}`" if is_set else None)
    return (
        f"Set `{name}` with {', '.join(sources)} or the key `{name}` in the configuration file; "
        f"{f'the default is {default}' if default else 'by default it is not set'}."
    )


DEFAULTS = {
    "data_dir": "`waybook` in `$XDG_DATA_HOME`, which is `~/.local/share` by default",
    "calls_per_second": "`60` in server mode, `0` in local mode",
}


def help_of(path: str) -> str:
    """Return the help text of a command."""
    command: click.Command = app
    context = click.Context(app, info_name="waybook", terminal_width=80, **app.context_settings)
    for name in path.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, name) or command
        context = click.Context(
            command, parent=context, info_name=name, terminal_width=80, **command.context_settings
        )
    return f"```text\n{command.get_help(context)}\n```"


def columns(table: str, schema: str) -> str:
    """Return the columns of a table in the schema file, as a code block."""
    body = re.search(rf"^create table {table} \(\n(.*?)^\)", schema, re.MULTILINE | re.DOTALL)
    if body is None:
        raise SystemExit(f"no table {table} in the schema")
    lines = (line.strip().rstrip(",") for line in body[1].splitlines())
    definitions = [line for line in lines if not line.startswith("constraint")]
    return "\n".join(["```sql", *definitions, "```"])


def profiles() -> str:
    """Return a Markdown table with the tools of each profile."""
    names = sorted({profile for tool in TOOLS.values() for profile in tool.profiles})
    rows = [
        f"| `{name}` | "
        + ", ".join(f"[{tool}](#{tool})" for tool in TOOLS if name in TOOLS[tool].profiles)
        + " |"
        for name in names
    ]
    return "\n".join(["| profile | tools |", "|---|---|", *rows])


def metrics() -> str:
    rows = [
        f"| `{name}` | {family.kind} | {', '.join(f'`{label}`' for label in family.labels)} "
        f"| {family.help} |"
        for name, family in FAMILIES.items()
    ]
    return "\n".join(["| metric | kind | labels | content |", "|---|---|---|---|", *rows])


# Functions for pages

MAKERS: Mapping[str, Callable[[str, str], str]] = {
    "statuses of": lambda name, _: diagram(MACHINES[name]),
    "arguments of": lambda name, _: arguments(TOOLS[name].arguments),
    "structure of": lambda name, _: arguments(STRUCTURES[name]),
    "setting": lambda name, _: setting(name),
    "help of": lambda name, _: help_of(name),
    "columns of": columns,
    "tools of": lambda _name, _schema: profiles(),
    "metrics": lambda _name, _schema: metrics(),
}


def render_part(name: str, schema: str) -> str:
    for prefix, make in MAKERS.items():
        if name.startswith(f"{prefix} "):
            return make(name.removeprefix(f"{prefix} "), schema)
    raise SystemExit(f"no generator for the part {name!r}")


def render(page: str, schema: str) -> str:
    return PART.sub(lambda part: f"{part[1]}{render_part(part[2], schema)}\n{part[4]}", page)
