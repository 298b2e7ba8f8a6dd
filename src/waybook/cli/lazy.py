"""Lazy imports, so that a command loads only the modules that it needs."""

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, TypeAlias

import click
from click.shell_completion import CompletionItem


def load(target: str) -> Any:  # noqa: ANN401 - the caller knows its type
    """Import and return the object named `package.module:name`."""
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


#: For each command, its import target in `waybook.cli`, and its help line.
Table: TypeAlias = Mapping[str, tuple[str, str]]

_HELP: Final = ("-h", "--help")
#: Key in the metadata of a context: whether the verb was left out.
_WITHOUT_VERB: Final = "waybook.without_verb"


class CommandGroup(click.Group):
    """Click group that imports the commands of its table only when they are called.

    `aliases` has old names of commands. If the first word is no verb, the `usual` verb is meant.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 - passed on
        table: Table | None = None,
        aliases: Mapping[str, str] | None = None,
        usual: str | None = None,
        **rest: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(*args, **rest)
        self.table, self.aliases, self.usual = table or {}, aliases or {}, usual
        self.is_old = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.aliases:
            return _like_before(self.find(ctx, self.aliases[cmd_name]))
        if cmd_name not in self.table:
            return super().get_command(ctx, cmd_name)
        command: click.Command = load(f"waybook.cli.{self.table[cmd_name][0]}")
        is_old = ctx.meta.pop(_WITHOUT_VERB, False) or self.is_old
        return _like_before(command) if is_old else command

    def find(self, ctx: click.Context, path: str) -> click.Command | None:
        """Return the command of a path like `plan list`."""
        name, _, rest = path.partition(" ")
        command = self.get_command(ctx, name)
        return command.find(ctx, rest) if rest and isinstance(command, CommandGroup) else command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        has_verb = ctx.resilient_parsing or (args and self._is_verb(ctx, args[0]))
        if self.usual and not has_verb:
            ctx.meta[_WITHOUT_VERB] = True
            args = [self.usual, *args]
        return super().parse_args(ctx, args)

    def _is_verb(self, ctx: click.Context, word: str) -> bool:
        """Return whether a word is a verb, or so similar that it was meant as one."""
        known = word in _HELP or word in self._names(ctx)
        return known or (word[:1] != "-" and bool(self._similar(ctx, word)))

    def _names(self, ctx: click.Context) -> list[str]:
        return [*self.list_commands(ctx), *self.aliases]

    def _similar(self, ctx: click.Context, word: str) -> list[str]:
        similar: list[str] = load("difflib:get_close_matches")(word, self._names(ctx), 1)
        return similar

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name[:1] != "-" and not ctx.resilient_parsing and name not in self._names(ctx):
            similar = self._similar(ctx, name)
            hint = f"Did you mean {similar[0]}?" if similar else "See --help."
            ctx.fail(f"There is no command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, _: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names from the table, without importing the commands."""
        named = {name: line for name, (_, line) in self.table.items()}
        named |= {name: c.get_short_help_str() for name, c in self.commands.items()}
        return [CompletionItem(n, help=h) for n, h in named.items() if n.startswith(incomplete)]

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            own = [(name, c.get_short_help_str(100)) for name, c in self.commands.items()]
            formatter.write_dl([*((name, line) for name, (_, line) in self.table.items()), *own])


def _like_before(command: click.Command | None) -> click.Command | None:
    """Return a command whose `--json` takes no fields, as before commands had verbs."""
    if command is None:
        return None
    changed = copy.copy(command)
    if isinstance(changed, CommandGroup):
        changed.is_old = True
        return changed
    flag = click.Option(["--json", "fields"], flag_value="all", help="Print JSON.")
    changed.params = [flag if param.name == "fields" else param for param in command.params]
    return changed
