"""Lazy imports, so that a command loads only the modules that it needs."""

from importlib import import_module
from typing import Any

import click


def load(target: str) -> Any:  # noqa: ANN401 - what it is, only its user knows
    """Import and return the object that `package.module:name` refers to."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """Click group that imports a command only when the command is called."""

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **rest: Any) -> None:  # noqa: ANN401 - passed on
        """Store the table of commands: for each name, the import target and the help line."""
        super().__init__(*args, **rest)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in table order."""
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command with this name."""
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(self.table[cmd_name][0])
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for `--help`, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self.table.items()])
