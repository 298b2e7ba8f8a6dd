"""`waybook plan list` and `waybook run list`."""

from collections.abc import Sequence

import click

from waybook.cli.access import Server, fields_option, open_page, server_command, web_option
from waybook.cli.options import limit_option
from waybook.cli.terminal.rows import (
    ALL_FIELDS,
    Column,
    Row,
    age_column,
    print_list,
    status_column,
)


def _done(row: Row) -> str:
    counts = row["counts"]
    failed = f", {counts['failed']} failed" if counts.get("failed") else ""
    return f"{counts['done']} of {counts['total']}{failed}"


def _stage(row: Row) -> str:
    """Return the progress of the stage that runs or waits for a person."""
    slug = row["currentStage"] or row["awaitingFeedback"]
    for stage in row["stages"]:
        if stage["stageSlug"] == slug:
            failed = f", {stage['failedSteps']} failed" if stage["failedSteps"] else ""
            return f"{slug} {stage['completedSteps']} of {stage['totalSteps']}{failed}"
    return ""


_PLAN_COLUMNS = (
    Column("id", lambda row: row["planId"], lambda _: "dim"),
    Column("plan", lambda row: row["name"]),
    status_column(),
    Column("progress", _done),
    age_column("activity", "lastActivityAt"),
    Column("by", lambda row: row["createdBy"], lambda _: "dim"),
)
_RUN_COLUMNS = (
    Column("id", lambda row: row["runId"], lambda _: "dim"),
    Column("run", lambda row: row["name"]),
    status_column(),
    Column("stages", lambda row: f"{row['completedStages']} of {row['totalStages']}"),
    age_column("activity", "lastActivityAt"),
    Column("steps", _stage),
    Column("of", lambda row: row["dagSlug"]),
)


def _list_command(noun: str, columns: Sequence[Column], hint: str) -> click.Command:
    view = f"{noun}s"

    @server_command(
        click.argument("text", required=False),
        click.option(
            "--state", metavar="STATE", help="Only in this state; or open (default), or all."
        ),
        click.option("--all", "closed_too", is_flag=True, hidden=True),
        limit_option(100),
        fields_option,
        web_option,
    )
    def command(
        server: Server,
        *,
        text: str | None,
        state: str | None,
        closed_too: bool,
        limit: int,
        fields: str | None,
        web: bool,
    ) -> None:
        if web:
            open_page(f"{server.url}/{view}")
            return
        state = ALL_FIELDS if closed_too else state
        answer = server.read(view, q=text, state=state, limit=limit)
        empty = f"No {noun} is open." if state is None else f"There are no such {view}."
        print_list(answer, view, columns, fields, f"{empty}\n{hint}")

    command.help = (
        f"List the {view}, newest activity first.\n\nTEXT is part of a name, or the beginning of "
        f"an id. In a pipe, the list has one line for each {noun}, with tabs between the fields."
    )
    return command


plan_list = _list_command(
    "plan", _PLAN_COLUMNS, "Agents create plans with create_research_plan. Try: waybook demo"
)
run_list = _list_command(
    "run", _RUN_COLUMNS, "Agents start runs with start_run. Workflows: waybook workflow list"
)
