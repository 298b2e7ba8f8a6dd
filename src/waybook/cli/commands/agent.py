"""`waybook agent view`: an agent, and the work that it holds."""

import click

from waybook.cli.access import Server, fields_option, server_command
from waybook.cli.commands.lists import AGENT_COLUMNS
from waybook.cli.completion import completer
from waybook.cli.terminal.errors import HintedError
from waybook.cli.terminal.rows import flat, print_fields


@server_command(
    click.argument("agent", shell_complete=completer("agents", "session")), fields_option
)
def view_command(server: Server, *, agent: str, fields: str | None) -> None:
    """Show an agent and the work that it holds. AGENT is part of the name or session."""
    answer = server.read("agents", q=agent)
    if not answer["agents"]:
        raise HintedError(f"there is no agent “{agent}” here", "waybook agent list")
    row = answer["agents"][0]
    if fields is not None:
        print_fields(row, fields)
        return
    for column in AGENT_COLUMNS[:-1]:
        click.echo(f"{column.heading}\t{flat(column.text({**row, 'now': answer['now']}))}")
    for item in row["holds"]:
        click.echo(f"works on\t{flat(item['title'] or item['kind'])}\t{flat(item['workName'])}")
