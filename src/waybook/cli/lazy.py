"""Lazy imports, so that a command loads only the modules that it needs."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeAlias

import click


def load(target: str) -> Any:  # noqa: ANN401 - what it is, only its user knows
    """Import and return the object named `package.module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


#: For each command, its import target in `waybook.cli` or its subcommands, and its help line.
Table: TypeAlias = Mapping[str, tuple["str | Table", str]]


class LazyGroup(click.Group):
    """Click group that imports a command only when it is called."""

    def __init__(self, *args: Any, table: Table, **rest: Any) -> None:  # noqa: ANN401 - passed on
        super().__init__(*args, **rest)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        target, summary = self.table[cmd_name]
        if not isinstance(target, str):
            return LazyGroup(cmd_name, table=target, help=summary)
        command: click.Command = load(f"waybook.cli.{target}")
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])
