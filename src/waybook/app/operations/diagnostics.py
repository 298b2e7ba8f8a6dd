"""Checks that an operator runs on the database, the machine and the webhooks."""

import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.settings_display import display_setting
from waybook.app.request.background import MAX_FAILURES_IN_A_ROW, LoopHealth
from waybook.app.request.request_context import RequestContext
from waybook.app.skills.loader import find_skills
from waybook.errors import Misconfigured
from waybook.integrations.config import WebhookSettings, webhook_from_settings
from waybook.notifications.message import Deliveries, load_templates
from waybook.settings import Settings
from waybook.store.driver.queries import first_column
from waybook.store.maintenance import migrate
from waybook.store.maintenance.migrate import ServerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCheck:
    server: ServerRow
    tables_without_rls: tuple[str, ...]
    owned_tables: tuple[str, ...]
    audit_rights: tuple[str, ...]


async def check_database(ctx: RequestContext) -> DatabaseCheck:
    """Inspect the database with the database role that the server uses."""
    ((server,), *lists) = await ctx.read(
        migrate.SQL["server"](),
        migrate.SQL["tables_without_rls"](),
        migrate.SQL["owned"](),
        migrate.SQL["audit_rights"](),
    )
    unguarded, owned, rights = (tuple(first_column(rows)) for rows in lists)
    return DatabaseCheck(
        server=server,
        tables_without_rls=unguarded,
        owned_tables=owned,
        audit_rights=rights,
    )


MEGABYTE = 1_000_000
LOW_DISK_BYTES = 1_000 * MEGABYTE
CRITICAL_DISK_BYTES = 100 * MEGABYTE
MAX_SKEW_SECONDS = 2.0


def check_server(seen: DatabaseCheck, *, with_size: bool = True) -> Iterator[CheckResult]:
    """Check the PostgreSQL version, the privileges and the clock."""
    used = f", {_megabytes(seen.server.size)} used" if with_size else ""
    yield CheckResult("server", CheckState.OK, f"PostgreSQL {seen.server.version}{used}")
    yield CheckResult("migrations", CheckState.OK, "up to date")
    yield from _guards(seen)
    yield _clock(seen)


def about_loops(loops: LoopHealth) -> Iterator[CheckResult]:
    """Yield one result for each failing background loop, or one result if none fails."""
    for loop, failures in sorted(loops.failures.items()):
        often = failures >= MAX_FAILURES_IN_A_ROW
        message = f"{loop} failed {failures} times in a row, last with {loops.errors[loop]}"
        todo = "read the server's log; the loop goes on trying"
        yield CheckResult(
            "background", CheckState.FAIL if often else CheckState.WARN, message, todo
        )
    if not loops.failures:
        yield CheckResult("background", CheckState.OK, "all loops work")


def check_machine(settings: Settings) -> Iterator[CheckResult]:
    yield _python()
    yield from _disk(settings)
    yield from _skills(settings)
    yield _model(settings)


def _guards(seen: DatabaseCheck) -> Iterator[CheckResult]:
    ok_message = f"serving as {seen.server.role}, which row-level security restricts"
    if seen.server.superuser or seen.server.bypasses_rls or seen.owned_tables:
        message = f"serving as {seen.server.role}, which row-level security does not restrict"
        todo = "serve as a role that owns no table and is not a superuser (waybook_app)"
        yield CheckResult("roles", CheckState.FAIL, message, todo)
    else:
        yield CheckResult("roles", CheckState.OK, ok_message)
    if seen.tables_without_rls:
        message = f"not forced on {', '.join(seen.tables_without_rls)}"
        yield CheckResult(
            "row-level security", CheckState.FAIL, message, "waybook migrate, as the owner"
        )
    else:
        yield CheckResult("row-level security", CheckState.OK, "forced on every table")
    if seen.audit_rights:
        message = f"{seen.server.role} may {', '.join(seen.audit_rights).lower()} entries"
        todo = (
            f"revoke {', '.join(seen.audit_rights).lower()} on audit_entry from {seen.server.role}"
        )
        yield CheckResult("audit", CheckState.FAIL, message, todo)
    else:
        yield CheckResult("audit", CheckState.OK, "append-only for the serving role")


def _clock(seen: DatabaseCheck) -> CheckResult:
    skew = abs((datetime.fromtimestamp(time.time(), UTC) - seen.server.now).total_seconds())
    if skew > MAX_SKEW_SECONDS:
        message = f"the database's clock and this machine's are {skew:.0f} s apart"
        return CheckResult(
            "clock", CheckState.WARN, message, "only the database clock is used; sync both with NTP"
        )
    return CheckResult("clock", CheckState.OK, "in sync with the database")


def _python() -> CheckResult:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return CheckResult("python", CheckState.OK, f"{version} on {sys.platform}")


def _disk(settings: Settings) -> Iterator[CheckResult]:
    if settings.database_url:
        return
    place = Path(settings.data_dir).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    message = f"{_megabytes(free)} free at {place}"
    if free < LOW_DISK_BYTES:
        state = CheckState.FAIL if free < CRITICAL_DISK_BYTES else CheckState.WARN
        yield CheckResult("disk", state, message, "free disk space or choose another --data-dir")
    else:
        yield CheckResult("disk", CheckState.OK, message)


def _skills(settings: Settings) -> Iterator[CheckResult]:
    scan = find_skills(settings.skills_dirs)
    names = ", ".join(skill.name for skill in scan.skills)
    yield CheckResult("skills", CheckState.OK, f"{len(scan.skills)}: {names}")
    for error in scan.errors:
        message = f"{error.path} is ignored: {error.message}"
        yield CheckResult("skills", CheckState.WARN, message, "see docs/how-to/write-a-skill.md")


def _model(settings: Settings) -> CheckResult:
    if settings.model_url is None:
        return CheckResult("model", CheckState.OK, "not configured (agents use their own model)")
    where = urlsplit(settings.model_url).hostname
    message = f"{settings.model} at {where}, by {settings.model_api}'s format (not called now)"
    return CheckResult("model", CheckState.OK, message)


def _megabytes(size: int) -> str:
    return (
        f"{size / MEGABYTE / 1000:,.1f} GB"
        if size > 1000 * MEGABYTE
        else f"{size / MEGABYTE:,.0f} MB"
    )


COMMAND_HINT = "waybook webhooks"


def check_webhooks(settings: Settings) -> Iterator[CheckResult]:
    try:
        webhook = webhook_from_settings(settings)
        if webhook is not None:
            load_templates(webhook.custom_templates())
    except Misconfigured as error:
        todo = "see docs/how-to/be-told-when-you-are-needed.md"
        yield CheckResult("webhooks", CheckState.FAIL, error.message, todo)
        return
    if webhook is None:
        yield CheckResult("webhooks", CheckState.OK, "off")
    else:
        yield _where(webhook)


def _where(webhook: WebhookSettings) -> CheckResult:
    place = display_setting("webhook_url", webhook.url)
    message = f"{len(webhook.events)} events to {place}, as {webhook.format}"
    if webhook.is_unencrypted:
        return CheckResult("webhooks", CheckState.WARN, f"{message}, not encrypted", "use https://")
    return CheckResult("webhooks", CheckState.OK, message)


def check_notifications(deliveries: Deliveries, *, configured: bool) -> Iterator[CheckResult]:
    since = (
        f", since {deliveries.oldest_waiting_at:%Y-%m-%d %H:%M}"
        if deliveries.oldest_waiting_at
        else ""
    )
    message = (
        f"{deliveries.waiting} waiting{since}, {deliveries.given_up} given up in the last 30 days"
    )
    if deliveries.overdue and configured:
        todo = "check that a server with webhook_url runs, and read its log"
        message = f"{message}; {deliveries.overdue} overdue"
        yield CheckResult("notices", CheckState.WARN, message, todo)
    elif deliveries.given_up:
        yield CheckResult(
            "notices", CheckState.WARN, message, f"{COMMAND_HINT}, then: waybook webhooks retry ID"
        )
    elif deliveries.waiting and not configured:
        yield CheckResult(
            "notices", CheckState.WARN, f"{message}; no webhook_url configured", "set webhook_url"
        )
    elif configured or deliveries.last_delivered_at:
        yield CheckResult("notices", CheckState.OK, message)
