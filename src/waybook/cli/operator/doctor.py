"""`waybook doctor`: prints the settings with their sources, and the results of all checks."""

import asyncio
import socket
import sys
from collections.abc import Iterator

import click
from rich.console import Console, RenderableType
from rich.table import Column
from rich.text import Text

from waybook.accounts.model import LOCAL_ORG
from waybook.app.operations.checks import CheckResult, CheckState, examined_owner
from waybook.app.operations.diagnostics import (
    about_quarantine,
    check_issuer_settings,
    check_machine,
    check_notifications,
    check_server,
    check_webhooks,
    try_everything,
)
from waybook.app.operations.settings_display import effective_settings, mask_setting_password
from waybook.app.queries.usage import count_deliveries
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.app.request.services import Services
from waybook.application import (
    DatabaseServer,
    database_server,
    open_database,
    pending_migrations,
)
from waybook.cli.lazy import load
from waybook.cli.logs import configure_command_logging
from waybook.cli.options import json_option, listening_options, serving_options
from waybook.cli.output import print_json
from waybook.cli.runtime import Outcome, get_console, print_outcome
from waybook.cli.terminal.console import plain_table, unwrapped
from waybook.core.decision_context import Channel
from waybook.core.hidden_characters import escape_hidden
from waybook.errors import Misconfigured, WaybookError
from waybook.integrations.config import read_proxies
from waybook.integrations.factory import open_embedder
from waybook.page_address import find_page_server
from waybook.settings import LoadedSettings, Settings
from waybook.settings_reading import settings_from


async def run_checks(settings: Settings) -> list[CheckResult]:
    """Run all checks. An unreachable database is reported as a failed check."""
    findings = [*check_machine(settings), check_webhooks(settings), *_port(settings)]
    findings += [*_proxies(settings), *await check_issuer_settings(settings)]
    try:
        async with database_server(settings) as postgres:
            findings += await _database(postgres, settings)
    except WaybookError as error:
        todo = "check --database-url" if settings.database_url else "see the message, or its log"
        findings.append(CheckResult("database", CheckState.FAIL, error.message, todo))
    return findings


async def _database(postgres: DatabaseServer, settings: Settings) -> list[CheckResult]:
    pending = await pending_migrations(postgres)
    where = mask_setting_password(settings.database_url) or f"embedded, in {settings.data_dir}"
    reached = CheckResult("database", CheckState.OK, where)
    if pending and settings.migrates_at_start:
        message = f"{len(pending)} will be applied by the next command or server"
        return [reached, CheckResult("migrations", CheckState.OK, message)]
    if pending:
        message = f"{len(pending)} to run: {', '.join(pending)}"
        return [reached, CheckResult("migrations", CheckState.WARN, message, "waybook migrate")]
    owner = await examined_owner(postgres.owner_dsn)
    try:
        return [reached, owner, *await _looked(postgres, settings)]
    except Misconfigured as error:
        todo = "then run waybook doctor again"
        return [reached, owner, CheckResult("roles", CheckState.FAIL, error.message, todo)]


async def _looked(postgres: DatabaseServer, settings: Settings) -> list[CheckResult]:
    async with open_database(postgres, settings) as database, open_embedder(settings) as embedder:
        caller = Caller(org_id=LOCAL_ORG, user=settings.user, channel=Channel.CLI)
        services = Services(database=database, settings=settings, embedder=embedder)
        call = RequestContext(services=services, caller=caller)
        findings = await check_server(call)
        findings += await try_everything(call)
        findings.append(await about_quarantine(call, everywhere=True))
        configured = settings.webhook_url is not None
        return [
            *findings,
            *check_notifications(await count_deliveries(call), configured=configured),
        ]


def _port(settings: Settings) -> Iterator[CheckResult]:
    server = find_page_server(settings)
    if server is not None:
        message = f"served at {server.url} by {server.command}, process {server.pid}"
        yield CheckResult("dashboard", CheckState.OK, message)
    place = f"{settings.host}:{settings.port}"
    if server is not None and server.port == settings.port:
        yield CheckResult("port", CheckState.OK, f"{place} serves the dashboard")
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            todo = "the port is in use, perhaps by waybook serve; choose another --port"
            yield CheckResult("port", CheckState.WARN, f"{place}: {error.strerror}", todo)
        else:
            yield CheckResult("port", CheckState.OK, f"{place} is free")


def _proxies(settings: Settings) -> Iterator[CheckResult]:
    try:
        proxies = read_proxies(settings.trusted_proxies)
    except Misconfigured as error:
        todo = "name addresses or networks, separated by commas"
        yield CheckResult("proxies", CheckState.FAIL, error.message, todo)
        return
    message = ", ".join(map(str, proxies)) or "none (client address = peer address)"
    yield CheckResult("proxies", CheckState.OK, message)


MARKS = {
    CheckState.OK: Text("✓ ok", style="green"),
    CheckState.WARN: Text("▲ warn", style="yellow"),
    CheckState.FAIL: Text("✗ fail", style="red"),
}


@click.command()
@json_option
@click.option(
    "--fleet", metavar="URL[,URL...]", help="Ask these running servers instead of checking here."
)
@listening_options
@serving_options
def command(*, as_json: bool, fleet: str | None, **flags: object) -> None:
    """Check the configuration and environment.

    Read-only. Exits with code 1 if a check fails, or if a server of --fleet is not ready.
    """
    loaded = settings_from(flags)
    configure_command_logging(loaded)
    if fleet is not None:
        print_outcome(_check_fleet(fleet, loaded.settings.metrics_token), as_json=as_json)
        return
    findings = asyncio.run(run_checks(loaded.settings))
    if as_json:
        settings = {
            name: {"value": value, "from": source}
            for name, value, source in effective_settings(loaded)
        }
        checks = [
            {"check": f.name, "state": str(f.state), "said": f.message, "todo": f.remedy}
            for f in findings
        ]
        print_json({"settings": settings, "checks": checks})
    else:
        _show(get_console(), loaded, findings)
    sys.exit(int(any(finding.state is CheckState.FAIL for finding in findings)))


def _check_fleet(fleet: str, metrics_token: str | None) -> Outcome:
    # Import the HTTP client only here, because only the option `--fleet` needs it.
    names = ("probe_servers", "read_urls", "differences")
    probe, read, compare = (load(f"waybook.integrations.server_probe:{name}") for name in names)
    states = asyncio.run(probe(read(fleet), metrics_token))
    notes = compare(states)
    heads = ("server", "alive", "ready", "version", "schema", "leader", "lag", "")
    table = plain_table(*(Column(head, overflow="fold") for head in heads))
    for state in states:
        leads = None if state.leads is None else ("yes" if state.leads else "no")
        lag = None if state.lag_seconds is None else f"{state.lag_seconds:.0f} s"
        marks = [MARKS[CheckState.OK if ok else CheckState.FAIL] for ok in state[1:3]]
        shown = [text or "?" for text in (state.version, state.schema, leads, lag)]
        texts = [Text(escape_hidden(text)) for text in (*shown, state.error or "")]
        table.add_row(Text(state.url), *marks, *texts)
    value = {"servers": [state._asdict() for state in states], "differences": notes}
    lines: list[RenderableType] = [table, *(Text(escape_hidden(note)) for note in notes)]
    return Outcome(value, lines, exit_code=int(not all(state.is_ready for state in states)))


def _show(console: Console, loaded: LoadedSettings, findings: list[CheckResult]) -> None:
    heads = ("setting", "value", "from")
    settings = plain_table(*(Column(head, overflow="fold") for head in heads))
    for name, value, source in effective_settings(loaded):
        style = "dim" if source == "default" else ""
        settings.add_row(name, value, source, style=style)
    checks = plain_table(unwrapped("check"), unwrapped(), Column(overflow="fold"))
    for finding in findings:
        message = Text(finding.message)
        if finding.remedy:
            message.append(f"\n→ {finding.remedy}", style="bold")
        checks.add_row(finding.name, MARKS[finding.state], message)
    console.print(settings, "", checks)
