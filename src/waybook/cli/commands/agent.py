"""`waybook agent`: the agents, and the work that they hold."""

import click

from waybook.cli.access import Server, fields_option, open_page, server_command, web_option
from waybook.cli.completion import completer
from waybook.cli.options import limit_option
from waybook.cli.terminal.errors import HintedError
from waybook.cli.terminal.rows import Column, Row, age_column, flat, print_fields, print_list


def _held(row: Row) -> str:
    return ", ".join(
        f"{item['title'] or item['kind']} ({item['workName']})" for item in row["holds"]
    )


_COLUMNS = (
    Column("agent", lambda row: row["name"]),
    Column("session", lambda row: row["session"]),
    age_column("last seen", "lastSeenAt"),
    Column("done", lambda row: str(row["completed"])),
    Column("cost", lambda row: row["cost"]),
    Column("client", lambda row: ", ".join(row["clients"])),
    Column("works on", _held),
)


@server_command(
    click.argument("text", required=False), limit_option(100), fields_option, web_option
)
def list_command(
    server: Server, *, text: str | None, limit: int, fields: str | None, web: bool
) -> None:
    """List the agents, last seen first. TEXT is part of the name or session."""
    if web:
        open_page(f"{server.url}/agents")
        return
    answer = server.read("agents", q=text, limit=limit)
    print_list(answer, "agents", _COLUMNS, fields, "No agent has made a call in the last 30 days.")


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
    for column in _COLUMNS[:-1]:
        click.echo(f"{column.heading}\t{flat(column.text({**row, 'now': answer['now']}))}")
    for item in row["holds"]:
        click.echo(f"works on\t{flat(item['title'] or item['kind'])}\t{flat(item['workName'])}")
