"""The examination of `waybook doctor`: what holds anywhere, and what only counts before a start."""

import socket
from collections.abc import Iterator

from waybook.doorway import Caller, Channel
from waybook.errors import Misconfigured, WaybookError
from waybook.settings import Settings
from waybook.store.deliveries import Deliveries
from waybook.store.tenants import LOCAL_ORG
from waybook.transport.faults import compact
from waybook.transport.mcp.tools import offered_tools, published_tools
from waybook.transport.web.proxies import read_proxies
from waybook.usecases.call import Call
from waybook.usecases.examine_database import Examined, examine_database
from waybook.usecases.findings import Finding, State, about_machine, about_server
from waybook.usecases.house import House
from waybook.usecases.issuer_findings import about_issuer
from waybook.usecases.list_deliveries import count_deliveries
from waybook.usecases.secrets import without_password
from waybook.usecases.webhook_findings import about_notices, about_webhooks
from waybook.wiring import Server, examined_owner, opened, pending_migrations, server

#: How large the list of tools may be, in bytes, for each profile that promises it.
LIMITS = {"plan": 7_000, "runs": 8_000, "all": 20_000}


async def examine(settings: Settings) -> list[Finding]:
    """Look at everything; a database out of reach is a finding too."""
    findings = [*about_machine(settings), *about_webhooks(settings), _port(settings), *_tools()]
    findings += [*_proxies(settings), *await about_issuer(settings)]
    try:
        async with server(settings) as postgres:
            findings += await _database(postgres, settings)
    except WaybookError as fault:
        todo = "check --database-url" if settings.database_url else "see the message, or its log"
        findings.append(Finding("database", State.FAIL, fault.message, todo))
    return findings


async def _database(postgres: Server, settings: Settings) -> list[Finding]:
    pending = await pending_migrations(postgres)
    where = without_password(settings.database_url) or f"embedded, in {settings.data_dir}"
    reached = Finding("database", State.OK, where)
    if pending:
        said = f"{len(pending)} to run: {', '.join(pending)}"
        return [reached, Finding("migrations", State.WARN, said, "waybook migrate")]
    owner = await examined_owner(postgres)
    try:
        seen, told = await _looked(postgres, settings)
    except Misconfigured as fault:
        todo = "then look again: waybook doctor"
        return [reached, owner, Finding("roles", State.FAIL, fault.message, todo)]
    configured = settings.webhook_url is not None
    return [reached, owner, *about_server(seen), *about_notices(told, configured=configured)]


async def _looked(postgres: Server, settings: Settings) -> tuple[Examined, Deliveries]:
    async with opened(postgres, settings) as database:
        caller = Caller(org_id=LOCAL_ORG, user=settings.user, channel=Channel.CLI)
        call = Call(house=House(database=database), caller=caller)
        return await examine_database(call), await count_deliveries(call)


def _port(settings: Settings) -> Finding:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as fault:
            said = f"{settings.host}:{settings.port}: {fault.strerror}"
            todo = "a running waybook serve is fine; otherwise choose another --port"
            return Finding("port", State.WARN, said, todo)
    return Finding("port", State.OK, f"{settings.host}:{settings.port} is free")


def _proxies(settings: Settings) -> Iterator[Finding]:
    try:
        proxies = read_proxies(settings.trusted_proxies)
    except Misconfigured as fault:
        todo = "name addresses or networks, separated by commas"
        yield Finding("proxies", State.FAIL, fault.message, todo)
        return
    said = ", ".join(map(str, proxies.networks)) or "none: whoever connects is who calls"
    yield Finding("proxies", State.OK, said)


def _tools() -> Iterator[Finding]:
    for profile, limit in LIMITS.items():
        offered = offered_tools(published_tools(), profile)
        listed = [tool.model_dump(by_alias=True, exclude_none=True) for tool in offered]
        size = len(compact({"tools": listed}).encode())
        said = f"{len(listed)} tools, listed in {size:,} of {limit:,} bytes"
        over = size > limit
        todo = "fewer or shorter descriptions: agents read this list in every conversation"
        state, told = (State.WARN, todo) if over else (State.OK, None)
        yield Finding(f"tools ({profile})", state, said, told)
