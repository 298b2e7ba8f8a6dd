"""Commands, tool calls and code in the documentation are valid."""

import ast
import importlib
import json
import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import fields

import click
import pytest
import yaml

from project.repository import ROOT, code_blocks, pages
from waybook.app.registry import TOOLS
from waybook.app.request.arguments import parse_arguments
from waybook.app.request.plan_arguments import ConditionArgument
from waybook.cli.app import app
from waybook.settings import Settings

COMMAND = re.compile(r"^\$ (?:\S*/)?waybook (.+)$", re.MULTILINE)
#: Pattern for a command in a shell block, which may follow variable assignments or another command.
SHELL_COMMAND = re.compile(
    r"(?:^|&& )(?:WAYBOOK_\w+=\S+ )*waybook ([^&\n]+?) *(?=&&|$)", re.MULTILINE
)

SHOWN = [
    pytest.param(line, id=f"{page.name}: {line[:40]}")
    for page in pages()
    for block in code_blocks(page.read_text("utf-8"), "console", "")
    for line in COMMAND.findall(block)
] + [
    pytest.param(line, id=f"{page.name}: {line[:40]}")
    for page in pages()
    for block in code_blocks(page.read_text("utf-8"), "sh")
    for line in SHELL_COMMAND.findall(block)
]


@pytest.mark.parametrize("line", SHOWN)
def test_commands_in_docs_exist_and_have_valid_arguments(line: str) -> None:
    command: click.Command = app
    context = click.Context(app, info_name="waybook")
    words = shlex.split(line)
    while isinstance(command, click.Group):
        usual = getattr(command, "usual", None)
        if usual and (not words or command.get_command(context, words[0]) is None):
            words.insert(0, usual)
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None, line
        command = subcommand
    params = command.make_context(command.name, words, parent=context).params
    if "tool" in params:
        parse_arguments(TOOLS[params["tool"]].arguments, json.loads(params["arguments"]))


def test_docs_contain_more_than_twenty_commands() -> None:
    assert len(SHOWN) > 20


def test_condition_examples_in_docs_are_valid() -> None:
    page = ROOT / "docs" / "how-to" / "branch-on-results.md"
    shown = code_blocks(page.read_text("utf-8"), "json")
    assert len(shown) == 4
    for block in shown:
        parse_arguments(ConditionArgument, json.loads(block))


def test_code_blocks_in_docs_have_valid_syntax() -> None:
    blocks = [
        (page, language, block)
        for page in pages()
        for language in READERS
        for block in code_blocks(page.read_text("utf-8"), language)
    ]
    assert {language for _, language, _ in blocks} == set(READERS)
    failures = [
        f"{page.relative_to(ROOT)}: {error}\n{block}"
        for page, language, block in blocks
        if (error := syntax_error(language, block)) is not None
    ]
    assert failures == []


READERS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "python": ast.parse,
    "yaml": yaml.safe_load,
}


def syntax_error(language: str, block: str) -> Exception | None:
    try:
        READERS[language](block)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return error
    return None


def test_python_code_in_docs_imports_only_existing_names() -> None:
    missing = [
        f"{page.relative_to(ROOT)}: {node.module}.{name.name}"
        for page in pages()
        for block in code_blocks(page.read_text("utf-8"), "python")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if not hasattr(importlib.import_module(node.module or ""), name.name)
    ]
    assert missing == []


def test_toml_code_in_docs_uses_only_existing_settings() -> None:
    known = {setting.name for setting in fields(Settings)}
    unknown = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages()
        for block in code_blocks(page.read_text("utf-8"), "toml")
        for name, value in tomllib.loads(block).items()
        if not isinstance(value, dict) and name not in known
    ]
    assert unknown == []
