"""What an operator wants to know of the database: who we are to it, and whether its guards hold."""

from dataclasses import dataclass
from datetime import datetime

from waybook.store import health
from waybook.usecases.call import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    version: str
    role: str
    superuser: bool
    bypasses: bool
    now: datetime
    size: int
    #: Tables that row-level security does not guard.
    unguarded: tuple[str, ...]
    #: Tables that belong to the serving role.
    owned: tuple[str, ...]
    #: What the serving role may do to the audit beyond reading and adding.
    audit_rights: tuple[str, ...]


async def examine_database(call: Call) -> Examined:
    """Look at the database as the one who serves sees it."""
    ((server,), *lists) = await call.read(
        health.SQL["server"](),
        health.SQL["unguarded"](),
        health.SQL["owned"](),
        health.SQL["audit_rights"](),
    )
    version, role, superuser, bypasses, now, size = server
    unguarded, owned, rights = (tuple(row[0] for row in rows) for rows in lists)
    return Examined(
        version=version,
        role=role,
        superuser=superuser,
        bypasses=bypasses,
        now=now,
        size=size,
        unguarded=unguarded,
        owned=owned,
        audit_rights=rights,
    )
