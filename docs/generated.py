"""Fill the generated parts of the pages from the source they describe.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. Run this file to write all of
them anew; with `--check` it only says which pages are out of date, and ends with exit code 1.
"""
# ruff: noqa: INP001, T201 - a script beside the pages; it prints what it did

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from waybook.cli.app import app
from waybook.cli.serve import command as serve
from waybook.doorway import TOOLS
from waybook.plan.states import PLAN_MOVES, STEP_MOVES
from waybook.settings import Settings
from waybook.usecases.asked_steps import ActionParams, AskedCondition, AskedStep
from waybook.usecases.asked_usage import AskedBudget, AskedUsage
from waybook.usecases.modify_plan import AskedModification
from waybook.usecases.store_research import AskedSource
from waybook.usecases.submit_job_result import HandedIn

DOCS = Path(__file__).resolve().parent
SCHEMA = DOCS.parent / "src" / "waybook" / "store" / "schema.sql"
PART = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

STRUCTURES: Mapping[str, type[BaseModel]] = {
    "step": AskedStep,
    "condition": AskedCondition,
    "action parameters": ActionParams,
    "modification": AskedModification,
    "document": HandedIn,
    "source": AskedSource,
    "usage": AskedUsage,
    "budget": AskedBudget,
}
#: Arguments that hold structures of their own, each with its heading.
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


# Diagrams


def diagram(moves: Mapping[Any, frozenset[Any]]) -> str:
    """A state machine as mermaid draws it: the first status is where everything begins."""
    lines = ["```mermaid", "stateDiagram-v2", f"  [*] --> {next(iter(moves))}"]
    for old, following in moves.items():
        lines += [f"  {old} --> {new}" for new in moves if new in following]
        lines += [f"  {old} --> [*]"] if not following else []
    return "\n".join([*lines, "```"])


# Arguments


def arguments(kind: type[BaseModel]) -> str:
    """A table of arguments: name, kind with its limits, whether it is needed."""
    schema = kind.model_json_schema()
    needed = schema.get("required", [])
    rows = [
        f"| `{name}` | {said(name, told, schema.get('$defs', {}))} "
        f"| {'yes' if name in needed else ''} |"
        for name, told in schema.get("properties", {}).items()
    ]
    rows.sort(key=lambda row: (not row.endswith("yes |"), "sessionId" in row, "idempot" in row))
    if not rows:
        return "It takes no arguments."
    return "\n".join(["| argument | kind | needed |", "|---|---|---|", *rows])


def said(name: str, schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """The kind of an argument, in words."""
    plain = resolved(schema, defs)
    if name in LINKED:
        return LINKED[name]
    if "enum" in plain:
        return ", ".join(f"`{word}`" for word in plain["enum"])
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "array": "list of texts",
        "object": "object",
    }
    return words.get(plain.get("type", ""), "any JSON") + limits(plain, schema)


def resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without its reference, and without the null of an optional value."""
    if "$ref" in schema:
        return resolved(defs[schema["$ref"].rsplit("/", 1)[1]], defs)
    for option in schema.get("anyOf", ()):
        if option.get("type") != "null":
            return resolved(option, defs)
    return schema


def limits(schema: Mapping[str, Any], outer: Mapping[str, Any]) -> str:
    """What bounds a value, and what it is when nothing is said."""
    told = []
    for keyword, words in (
        ("maxLength", "at most {:,} characters"),
        ("exclusiveMinimum", "above {:g}"),
        ("minimum", "at least {:g}"),
        ("maximum", "at most {:,}"),
    ):
        if keyword in schema:
            told.append(words.format(schema[keyword]))
    default = outer.get("default")
    told += [f"otherwise {str(default).lower()}"] if default is not None else []
    return "".join(f", {part}" for part in told)


# Settings, commands, tables


def setting(name: str) -> str:
    """Where a setting can be given, and what it is otherwise."""
    found = next(one for one in fields(Settings) if one.name == name)
    flags = {param.name for param in serve.params}
    ways = [f"environment `WAYBOOK_{name.upper()}`", f"file `{name}`"]
    if name in flags:
        ways.insert(0, f"flag `--{name.replace('_', '-')}`")
    default = DEFAULTS.get(name) or (f"`{found.default}`" if found.default else "nothing")
    return f"Given by {', '.join(ways)}; otherwise {default}."


DEFAULTS = {
    "data_dir": "`waybook` in `$XDG_DATA_HOME`, which is `~/.local/share` by default",
    "calls_per_second": "`60` in server mode, `0` in local mode",
}


def help_of(path: str) -> str:
    """What a command says of itself."""
    command: click.Command = app
    context = click.Context(app, info_name="waybook", terminal_width=80, **app.context_settings)
    for name in path.split():
        assert isinstance(command, click.Group)  # noqa: S101 - a name below a name
        command = command.get_command(context, name) or command
        context = click.Context(
            command, parent=context, info_name=name, terminal_width=80, **command.context_settings
        )
    return f"```text\n{command.get_help(context)}\n```"


def columns(table: str) -> str:
    """The columns of a table, as the dump of the schema has them."""
    text = SCHEMA.read_text(encoding="utf-8")
    body = re.search(rf"^create table {table} \(\n(.*?)^\)", text, re.MULTILINE | re.DOTALL)
    if body is None:
        raise SystemExit(f"there is no table {table}")
    lines = (line.strip().rstrip(",") for line in body[1].splitlines())
    kept = [line for line in lines if not line.startswith("constraint")]
    return "\n".join(["```sql", *kept, "```"])


# The pages

MAKERS: Mapping[str, Callable[[str], str]] = {
    "statuses of": lambda name: diagram(MACHINES[name]),
    "arguments of": lambda name: arguments(TOOLS[name].arguments),
    "structure of": lambda name: arguments(STRUCTURES[name]),
    "setting": setting,
    "help of": help_of,
    "columns of": columns,
}


def made(name: str) -> str:
    """The text of a part, by its name."""
    for beginning, make in MAKERS.items():
        if name.startswith(f"{beginning} "):
            return make(name.removeprefix(f"{beginning} "))
    raise SystemExit(f"nobody knows how to make: {name}")


def current(page: str) -> str:
    """A page with all its generated parts made anew."""
    return PART.sub(lambda part: f"{part[1]}{made(part[2])}\n{part[4]}", page)


def stale(pages: Iterator[Path], *, write: bool) -> list[str]:
    """The pages that are out of date, brought up to date if asked for."""
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if (anew := current(text)) != text:
            found.append(str(page.relative_to(DOCS)))
            if write:
                page.write_text(anew, encoding="utf-8")
    return found


if __name__ == "__main__":
    checking = "--check" in sys.argv[1:]
    outdated = stale(iter(sorted(DOCS.rglob("*.md"))), write=not checking)
    for name in outdated:
        print(f"{'out of date' if checking else 'written'}  {name}")
    sys.exit(int(checking and bool(outdated)))
