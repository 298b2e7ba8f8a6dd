"""Completion of ids and names of plans, runs, agents and workflows."""

import os
from collections.abc import Callable
from typing import Final

import click
from click.shell_completion import CompletionItem

from waybook.cli.access import Body, open_server

_MAX_ITEMS: Final = 50


def completer(
    view: str, id_field: str
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a function that completes an id, or a part of a name, from a list of the server."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = ("database_url", "data_dir", "token")
        flags = {name: ctx.params.get(name) for name in names}
        state = "all" if view in {"plans", "runs"} else None
        try:
            with open_server(flags) as server:
                rows = server.read(view, q=incomplete or None, state=state, limit=_MAX_ITEMS)[view]
        # A shell must not show an error while a person types.
        except Exception:  # noqa: BLE001
            return []
        return [item for row in rows if (item := _item(row, id_field, incomplete))]

    return complete


def _item(row: Body, id_field: str, incomplete: str) -> CompletionItem | None:
    text, name = str(row[id_field]), str(row.get("name", ""))
    # Only fish discards values that do not begin with the typed text, so it gets the name.
    by_name = not text.startswith(incomplete) and "fish" in os.environ.get("_WAYBOOK_COMPLETE", "")
    return CompletionItem(name, help=text) if by_name else CompletionItem(text, help=name)
