"""The examination: each check looks at one thing and says what it found and what to do."""

import shutil
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from waybook.cli.secrets import without_password
from waybook.doorway import Caller, Channel
from waybook.errors import WaybookError
from waybook.settings import Settings
from waybook.store.tenants import LOCAL_ORG
from waybook.transport.faults import compact
from waybook.transport.mcp.tools import offered_tools, published_tools
from waybook.usecases.call import Call
from waybook.usecases.examine_database import Examined, examine_database
from waybook.usecases.house import House
from waybook.usecases.skill_folders import find_skills
from waybook.wiring import Server, opened, pending_migrations, server

MEGABYTE = 1_000_000
LITTLE_SPACE = 1_000 * MEGABYTE
NO_SPACE = 100 * MEGABYTE
MOST_SKEW = 2.0
#: How large the list of tools may be, in bytes, for each profile that promises it.
LIMITS = {"plan": 7_000, "runs": 8_000, "all": 20_000}


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    state: State
    said: str
    todo: str | None = None


async def examine(settings: Settings) -> list[Finding]:
    """Look at everything; a database out of reach is a finding too."""
    findings = [_python(), *_disk(settings), _port(settings), *_tools(), *_skills(settings)]
    findings.append(_model(settings))
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
    async with opened(postgres, settings) as database:
        caller = Caller(org_id=LOCAL_ORG, user=settings.user, channel=Channel.CLI)
        seen = await examine_database(Call(house=House(database=database), caller=caller))
    return [
        reached,
        Finding("server", State.OK, f"PostgreSQL {seen.version}, {_megabytes(seen.size)} used"),
        Finding("migrations", State.OK, "all have run"),
        *_guards(seen),
        _clock(seen),
    ]


def _guards(seen: Examined) -> Iterator[Finding]:
    said = f"serving as {seen.role}, which owns nothing and bypasses nothing"
    if seen.superuser or seen.bypasses or seen.owned:
        told = f"serving as {seen.role}, which row-level security does not hold"
        todo = "serve as a role that owns no table and is no superuser (waybook_app)"
        yield Finding("roles", State.FAIL, told, todo)
    else:
        yield Finding("roles", State.OK, said)
    if seen.unguarded:
        told = f"not forced on {', '.join(seen.unguarded)}"
        yield Finding("row-level security", State.FAIL, told, "waybook migrate, as the owner")
    else:
        yield Finding("row-level security", State.OK, "forced on every table")
    if seen.audit_rights:
        told = f"{seen.role} may {', '.join(seen.audit_rights).lower()} entries"
        todo = f"revoke {', '.join(seen.audit_rights).lower()} on audit_entry from {seen.role}"
        yield Finding("audit", State.FAIL, told, todo)
    else:
        yield Finding("audit", State.OK, "can be added to and read, nothing else")


def _clock(seen: Examined) -> Finding:
    skew = abs((datetime.fromtimestamp(time.time(), UTC) - seen.now).total_seconds())
    if skew > MOST_SKEW:
        said = f"the database's clock and this machine's are {skew:.0f} s apart"
        return Finding("clock", State.WARN, said, "only the database's counts; set both by NTP")
    return Finding("clock", State.OK, "the database and this machine agree")


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("python", State.OK, f"{version} on {sys.platform}")


def _disk(settings: Settings) -> Iterator[Finding]:
    if settings.database_url:
        return
    place = Path(settings.data_dir).absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    said = f"{_megabytes(free)} free at {place}"
    if free < LITTLE_SPACE:
        state = State.FAIL if free < NO_SPACE else State.WARN
        yield Finding("disk", state, said, "make room, or choose another --data-dir")
    else:
        yield Finding("disk", State.OK, said)


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


def _skills(settings: Settings) -> Iterator[Finding]:
    found = find_skills(settings.skills_dirs)
    names = ", ".join(skill.name for skill in found.skills)
    yield Finding("skills", State.OK, f"{len(found.skills)}: {names}")
    for fault in found.faults:
        said = f"{fault.place} is left out: {fault.said}"
        yield Finding("skills", State.WARN, said, "see docs/how-to/write-a-skill.md")


def _model(settings: Settings) -> Finding:
    if settings.model_url is None:
        return Finding("model", State.OK, "none: agents extract with their own")
    where = urlsplit(settings.model_url).hostname
    said = f"{settings.model} at {where}, by {settings.model_api}'s format (not asked now)"
    return Finding("model", State.OK, said)


def _megabytes(size: int) -> str:
    return (
        f"{size / MEGABYTE / 1000:,.1f} GB"
        if size > 1000 * MEGABYTE
        else f"{size / MEGABYTE:,.0f} MB"
    )
