"""Lists of plans, runs, reviews, agents and workflows."""

from collections.abc import Sequence
from typing import Any, Final

import click

from waybook.cli.access import Server, fields_option, open_page, server_command, web_option
from waybook.cli.options import Option, limit_option
from waybook.cli.terminal.rows import Column, Row, age_column, print_list, status_column

_TEXT: Final = "TEXT is part of a name, or the beginning of an id."


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


def _held(row: Row) -> str:
    return ", ".join(
        f"{item['title'] or item['kind']} ({item['workName']})" for item in row["holds"]
    )


_KINDS: Final = {"review": "review", "feedback": "feedback", "failure": "failed jobs"}
AGENT_COLUMNS: Final = (
    Column("agent", lambda row: row["name"]),
    Column("session", lambda row: row["session"]),
    age_column("last seen", "lastSeenAt"),
    Column("done", lambda row: str(row["completed"])),
    Column("cost", lambda row: row["cost"]),
    Column("client", lambda row: ", ".join(row["clients"])),
    Column("works on", _held),
)


def _list_command(
    view: str,
    page: str,
    columns: Sequence[Column],
    empty: str,
    text: str,
    *options: Option,
) -> click.Command:
    """Make a command that prints a view. Its other options are the parameters of the view."""

    @server_command(*options, fields_option, web_option, text=text)
    def command(server: Server, *, fields: str | None, web: bool, **query: Any) -> None:  # noqa: ANN401
        if web:
            open_page(f"{server.url}/{page}")
        else:
            print_list(server.read(view, **query), view, columns, fields, empty)

    return command


_filters: Final = (
    click.argument("q", metavar="[TEXT]", required=False),
    click.option("--state", help="Only in this state; or open (default), or all.", metavar="STATE"),
    click.option("--all", "state", flag_value="all", hidden=True),
    limit_option(100),
)
plan_list = _list_command(
    "plans",
    "plans",
    (
        Column("id", lambda row: row["planId"], lambda _: "dim"),
        Column("plan", lambda row: row["name"]),
        status_column(),
        Column("progress", _done),
        age_column("activity", "lastActivityAt"),
        Column("by", lambda row: row["createdBy"], lambda _: "dim"),
    ),
    "There are no such plans. Agents create plans with create_research_plan. Try: waybook demo",
    f"List the plans, newest activity first.\n\n{_TEXT} In a pipe, the list has one line for each "
    "plan, with tabs between the fields.",
    *_filters,
)
run_list = _list_command(
    "runs",
    "runs",
    (
        Column("id", lambda row: row["runId"], lambda _: "dim"),
        Column("run", lambda row: row["name"]),
        status_column(),
        Column("stages", lambda row: f"{row['completedStages']} of {row['totalStages']}"),
        age_column("activity", "lastActivityAt"),
        Column("steps", _stage),
        Column("of", lambda row: row["dagSlug"]),
    ),
    "There are no such runs. Agents start runs with start_run. Workflows: waybook workflow list",
    f"List the runs, newest activity first.\n\n{_TEXT} In a pipe, the list has one line for each "
    "run, with tabs between the fields.",
    *_filters,
)
review_list = _list_command(
    "reviews",
    "inbox",
    (
        Column("id", lambda row: row.get("planId") or row["runId"], lambda _: "dim"),
        Column("plan or run", lambda row: row["name"]),
        Column("asks for", lambda row: _KINDS[row["kind"]], lambda _: "bold magenta"),
        Column("step or stage", lambda row: row["title"]),
        age_column("since", "since"),
    ),
    "Nothing is waiting for you.",
    "List what waits for a person: reviews, feedback on stages, and failed jobs.",
    limit_option(100),
)
agent_list = _list_command(
    "agents",
    "agents",
    AGENT_COLUMNS,
    "No agent has made a call in the last 30 days.",
    "List the agents, last seen first. TEXT is part of the name or session.",
    click.argument("q", metavar="[TEXT]", required=False),
    limit_option(100),
)
workflow_list = _list_command(
    "workflows",
    "dags",
    (
        Column("slug", lambda row: row["dagSlug"]),
        Column("name", lambda row: row["name"]),
        Column("version", lambda row: str(row["version"])),
        Column("stages", lambda row: str(len(row["stages"]))),
        Column("steps", lambda row: str(sum(stage["steps"] for stage in row["stages"]))),
        Column("what it does", lambda row: row["description"], lambda _: "dim"),
    ),
    "There are no workflows.",
    "List available workflows.",
)
