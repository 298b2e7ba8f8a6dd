"""Lazy imports, so that a command loads only the modules that it needs."""

from importlib import import_module
from typing import Any

import click


def load(target: str) -> Any:  # noqa: ANN401 - what it is, only its user knows
    """Import and return the object named `package.module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """Click group that imports a command only when it is called."""

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **rest: Any) -> None:  # noqa: ANN401 - passed on
        """`table` maps each command to its import target in `waybook.cli` and its help line."""
        super().__init__(*args, **rest)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(f"waybook.cli.{self.table[cmd_name][0]}")
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])
