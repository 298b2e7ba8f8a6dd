"""`waybook work`: workers that start agents on the steps of plans and the jobs of runs."""

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

import click

from waybook.cli.access import Body, Server, open_server
from waybook.cli.completion import completer
from waybook.cli.options import database_options, yes_option
from waybook.cli.output import print_line
from waybook.cli.remote import find_remote, login_file
from waybook.cli.terminal.errors import HintedError, ToolError
from waybook.cli.terminal.rows import Column, print_list
from waybook.client import Client, Retry, StdioConnection
from waybook.client.connection import Connection, HttpConnection
from waybook.errors import NotFound
from waybook.json_values import Json
from waybook.settings import Settings
from waybook.settings_reading import settings_from
from waybook.work.adapters import Adapter, find_adapter, init_adapters, load_adapters
from waybook.work.fleet import run_fleet
from waybook.work.options import Options
from waybook.work.tasks import Limits

#: A call is repeated for this long while the server or its database is away.
_OUTAGE: Final = Retry(deadline_seconds=24 * 3600.0)
_CALL_SECONDS: Final = 60.0
_MINUTE: Final = 60.0
#: Scope and period of the caps that a limit such as `agent:5` means.
_SCOPES: Final = {
    "": ("work", "total"),
    "plan": ("plan", "total"),
    "run": ("run", "total"),
    "agent": ("agent", "total"),
    "day": ("org", "day"),
    "org": ("org", "total"),
}


def _cap_option(name: str, unit: str, what: str, factor: float = 1.0) -> Callable[[Any], Any]:
    def parse(_: click.Context, __: click.Parameter, values: Sequence[str]) -> list[dict[str, Any]]:
        caps = []
        for value in values:
            scope, separator, number = value.rpartition(":")
            try:
                limit = float(number) * factor
            except ValueError:
                limit = 0.0
            if scope not in _SCOPES or bool(scope) != bool(separator) or not 0 < limit < inf:
                names = ", ".join(_SCOPES)[2:]
                raise click.BadParameter(f"{value}: give a number, or one of {names}:N")
            scope, period = _SCOPES[scope]
            caps.append({"scope": scope, "period": period, "unit": unit, "limit": limit})
        return caps

    text = f"Pause and ask at this many {what}; [plan|run|agent|day|org]:N for another scope."
    return click.option(name, multiple=True, metavar="N", callback=parse, help=text)


@click.command()
@click.argument("work", required=False, shell_complete=completer("plans", "planId"))
@click.option("--all", "is_all", is_flag=True, help="Work on every open plan and run.")
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME[:N]",
    help="Agent with N workers, such as codex:2, or 'cmd:my-agent {prompt_file}'; repeatable.",
)
@click.option(
    "--isolation",
    type=click.Choice(["step", "worker", "none"]),
    help="Git worktrees (default: one per step, if this folder is in a repository).",
)
@click.option("--into", metavar="BRANCH", help="Target branch (default: waybook/PLAN/merged).")
@click.option("--check", metavar="COMMAND", help="Command that must succeed on each merged state.")
@click.option("--require-changes", is_flag=True, help="A step is done only if it changed a file.")
@click.option(
    "--timeout", type=float, default=60.0, help="Minutes that one agent may run (default: 60)."
)
@click.option(
    "--memory",
    type=click.FloatRange(0.01, 1_000_000),
    help="Gigabytes that one agent may use, on Linux (default: no limit).",
)
@click.option("--attempts", type=int, default=3, help="Attempts until a step fails (default: 3).")
@_cap_option("--max-cost", "costUsd", "dollars")
@_cap_option("--max-tokens", "tokens", "tokens")
@_cap_option("--max-time", "seconds", "minutes of work", _MINUTE)
@_cap_option("--max-steps", "steps", "steps or jobs")
@_cap_option("--max-failures", "failures", "failures in a row")
@click.option(
    "--grace", type=float, default=60.0, help="Seconds to finish after SIGTERM (default: 60)."
)
@yes_option
@click.option("--status", "is_status", is_flag=True, help="Show the workers instead.")
@database_options
def start_command(*, work: str | None, is_all: bool, is_status: bool, **options: Any) -> None:  # noqa: ANN401 - from click
    """Let agents work on a plan or run.

    WORK is a plan or a run: an id, an id prefix, or part of the name; optional if only one plan is
    open. Each worker claims a step, starts its agent without a person, and submits the result.
    """
    flags = {name: options[name] for name in ("database_url", "data_dir", "token")}
    adapters = load_adapters(_agents_file())
    with open_server(flags) as server:
        if is_status:
            _print_status(server)
            return
        agents = tuple(find_adapter(spec, adapters) for spec in options["agents"])
        if not agents:
            hint = "waybook work PLAN --agent claude-code, or: waybook work init"
            raise HintedError("no agent is named", hint)
        subject = {} if is_all else _find(server, work)
        workers = sum(count for _, count in agents)
        if "planId" in subject and workers > 1 and not options["yes"]:
            _confirm(server.read("plan", q=subject["planId"]), workers)
    settings, check = settings_from(flags).settings, options["check"]
    connect, entry, secrets = _access(flags, settings)
    caps = [cap for name, value in options.items() if name.startswith("max_") for cap in value]
    chosen = Options(
        agents=agents,
        connect=connect,
        folder=Path.cwd(),
        state_folder=settings.data_dir.absolute() / "work",
        say=print_line,
        isolation=options["isolation"],
        target=options["into"],
        check=check and Adapter(name="check", command=("sh", "-c", check), wrap=adapters.wrap),
        requires_change=options["require_changes"],
        max_attempts=options["attempts"],
        caps=tuple(caps),
        limits=Limits(
            seconds=options["timeout"] * _MINUTE,
            memory_bytes=int(options["memory"] * 1e9) if options["memory"] else None,
        ),
        grace_seconds=options["grace"],
        mcp_server=entry,
        secrets=secrets,
        subject=subject,
    )
    sys.exit(asyncio.run(run_fleet(chosen)))


@click.command()
def init_command() -> None:
    """Find the installed agents, and write the file agents.toml for your changes."""
    for line in init_adapters(_agents_file(), load_adapters()):
        click.echo(line)


def _agents_file() -> Path:
    return login_file().with_name("agents.toml")


def _find(server: Server, text: str | None) -> dict[str, str]:
    """Return the plan or, if there is no such plan, the run with this id or name."""
    try:
        return {"planId": server.read("plan", q=text)["planId"]}
    except (ToolError, NotFound) as error:
        is_missing = isinstance(error, NotFound) or error.error["code"] == "NOT_FOUND"
        if text is None or not is_missing:
            raise
    return {"runId": server.read("run", q=text)["runId"]}


def _confirm(plan: Body, workers: int) -> None:
    """Ask before several workers do steps at the same time that may change the same files."""
    if not any(step["state"] == "blocked" or step.get("touches") for step in plan["steps"]):
        name = plan["name"]
        print_line(f"The steps of “{name}” have neither dependencies nor touches.", err=True)
        click.confirm(f"Let {workers} workers do them at the same time?", abort=True, err=True)


def _access(
    flags: Mapping[str, object], settings: Settings
) -> tuple[Callable[[str], Client], Mapping[str, Json], tuple[str, ...]]:
    """Return how workers connect, how agents start Waybook's tools, and texts to mask."""
    is_local = bool(flags.get("database_url") or flags.get("data_dir"))
    remote = None if is_local else find_remote(flags.get("token"))
    token = remote.token if remote else settings.token
    entry: Mapping[str, Json]
    connection: Callable[..., Connection]
    if remote is not None:
        url = f"{remote.url}/mcp"
        entry = {"url": url, "headers": {"authorization": f"Bearer {token}"} if token else {}}
        connection = partial(HttpConnection, url, token, _CALL_SECONDS)
    else:
        # In the environment, a password is not visible in process lists.
        named = {
            "WAYBOOK_DATA_DIR": str(settings.data_dir.absolute()),
            "WAYBOOK_DATABASE_URL": settings.database_url,
            "WAYBOOK_TOKEN": token,
        }
        own = {name: value for name, value in named.items() if value}
        entry = {"command": sys.executable, "args": ["-m", "waybook", "mcp"], "env": {**own}}
        environment = {**os.environ, **own, "WAYBOOK_PAGES": "off"}
        connection = partial(StdioConnection, env=environment)

    def connect(name: str) -> Client:
        return Client(connection(name=name), retry=_OUTAGE)

    return connect, entry, (token,) if token else ()


def _print_status(server: Server) -> None:
    answer = server.read("workers")
    columns = (
        Column("agent", lambda row: f"{row['agent']} · {row['session']}"),
        Column("state", lambda row: row["state"]),
        Column("plan or run", lambda row: row.get("name") or ""),
        Column("reason", lambda row: row.get("reason") or ""),
    )
    print_list(answer, "workers", columns, None, "No workers.")
    for row in answer["workers"]:
        for line in row.get("lines") or []:
            print_line(f"{row['session']}: {line}")
