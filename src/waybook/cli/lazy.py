"""The one place where a module is imported late, so that each command starts with its own only."""

from importlib import import_module
from typing import Any

import click


def load(target: str) -> Any:  # noqa: ANN401 - what it is, only its user knows
    """What `package.module:name` names, imported now."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


class LazyGroup(click.Group):
    """A group that knows its commands by name and sentence, and imports the one that is called."""

    def __init__(self, *args: Any, table: dict[str, tuple[str, str]], **rest: Any) -> None:  # noqa: ANN401 - passed on
        """Take the commands as name → (target, what it does)."""
        super().__init__(*args, **rest)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the table's order."""
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(self.table[cmd_name][0])
        return command

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands for `--help`, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in self.table.items()])
