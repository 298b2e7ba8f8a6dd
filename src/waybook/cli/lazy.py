"""Lazy imports, so that a command loads only the modules that it needs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

import click


def load(target: str) -> Any:  # noqa: ANN401 - the caller knows its type
    """Import and return the object named `package.module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


#: For each command, its import target in `waybook.cli`, and its help line.
Table: TypeAlias = Mapping[str, tuple[str, str]]


class CommandGroup(click.Group):
    """Click group that imports the commands of its table only when they are called."""

    def __init__(self, *args: Any, table: Table | None = None, **rest: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(*args, **rest)
        self.table = table or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(f"waybook.cli.{self.table[cmd_name][0]}")
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            own = [(name, c.get_short_help_str(100)) for name, c in self.commands.items()]
            formatter.write_dl([*((name, line) for name, (_, line) in self.table.items()), *own])
