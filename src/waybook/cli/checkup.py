"""The examination of `waybook doctor`: what holds anywhere, and what only counts before a start."""

import socket
from collections.abc import Iterator

from waybook.doorway import Caller, Channel
from waybook.endpoints.opening import open_embedder
from waybook.errors import Misconfigured, WaybookError
from waybook.settings import Settings
from waybook.store.tenants import LOCAL_ORG
from waybook.transport.faults import compact_json
from waybook.transport.mcp.tools import published_tools, tools_in_profile
from waybook.transport.web.proxies import read_proxies
from waybook.usecases.call import RequestContext
from waybook.usecases.examine_database import check_database
from waybook.usecases.findings import CheckResult, CheckState, check_machine, check_server
from waybook.usecases.house import Services
from waybook.usecases.issuer_findings import check_issuer_settings
from waybook.usecases.list_deliveries import count_deliveries
from waybook.usecases.search_settings import open_library
from waybook.usecases.secrets import mask_setting_password
from waybook.usecases.trials import about_quarantine, try_everything
from waybook.usecases.webhook_findings import check_notifications, check_webhooks
from waybook.wiring import (
    DatabaseServer,
    database_server,
    examined_owner,
    open_database,
    pending_migrations,
)

#: How large the list of tools may be, in bytes, for each profile that promises it.
TOOL_LIST_LIMITS = {"plan": 7_000, "runs": 8_000, "all": 20_000}


async def run_checks(settings: Settings) -> list[CheckResult]:
    """Look at everything; a database out of reach is a finding too."""
    findings = [*check_machine(settings), *check_webhooks(settings), _port(settings), *_tools()]
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
    if pending:
        said = f"{len(pending)} to run: {', '.join(pending)}"
        return [reached, CheckResult("migrations", CheckState.WARN, said, "waybook migrate")]
    owner = await examined_owner(postgres)
    try:
        return [reached, owner, *await _looked(postgres, settings)]
    except Misconfigured as error:
        todo = "then look again: waybook doctor"
        return [reached, owner, CheckResult("roles", CheckState.FAIL, error.message, todo)]


async def _looked(postgres: DatabaseServer, settings: Settings) -> list[CheckResult]:
    async with open_database(postgres, settings) as database, open_embedder(settings) as embedder:
        caller = Caller(org_id=LOCAL_ORG, user=settings.user, channel=Channel.CLI)
        library = open_library(settings, embedder)
        call = RequestContext(
            services=Services(database=database, search_backend=library), caller=caller
        )
        findings = [*check_server(await check_database(call))]
        findings += await try_everything(call)
        findings.append(await about_quarantine(call, everywhere=True))
        configured = settings.webhook_url is not None
        return [
            *findings,
            *check_notifications(await count_deliveries(call), configured=configured),
        ]


def _port(settings: Settings) -> CheckResult:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            said = f"{settings.host}:{settings.port}: {error.strerror}"
            todo = "a running waybook serve is fine; otherwise choose another --port"
            return CheckResult("port", CheckState.WARN, said, todo)
    return CheckResult("port", CheckState.OK, f"{settings.host}:{settings.port} is free")


def _proxies(settings: Settings) -> Iterator[CheckResult]:
    try:
        proxies = read_proxies(settings.trusted_proxies)
    except Misconfigured as error:
        todo = "name addresses or networks, separated by commas"
        yield CheckResult("proxies", CheckState.FAIL, error.message, todo)
        return
    said = ", ".join(map(str, proxies.networks)) or "none: whoever connects is who calls"
    yield CheckResult("proxies", CheckState.OK, said)


def _tools() -> Iterator[CheckResult]:
    for profile, limit in TOOL_LIST_LIMITS.items():
        offered = tools_in_profile(published_tools(), profile)
        listed = [tool.model_dump(by_alias=True, exclude_none=True) for tool in offered]
        size = len(compact_json({"tools": listed}).encode())
        said = f"{len(listed)} tools, listed in {size:,} of {limit:,} bytes"
        over = size > limit
        todo = "fewer or shorter descriptions: agents read this list in every conversation"
        state, told = (CheckState.WARN, todo) if over else (CheckState.OK, None)
        yield CheckResult(f"tools ({profile})", state, said, told)
