"""What an operator wants to know of the database: who we are to it, and whether its guards hold."""

from dataclasses import dataclass
from datetime import datetime

from waybook.store import health
from waybook.usecases.call import RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseCheck:
    version: str
    role: str
    superuser: bool
    bypasses_rls: bool
    now: datetime
    size: int
    #: Tables that row-level security does not guard.
    tables_without_rls: tuple[str, ...]
    #: Tables that belong to the serving role.
    owned_tables: tuple[str, ...]
    #: What the serving role may do to the audit beyond reading and adding.
    audit_rights: tuple[str, ...]


async def check_database(ctx: RequestContext) -> DatabaseCheck:
    """Look at the database as the one who serves sees it."""
    ((server,), *lists) = await ctx.read(
        health.SQL["server"](),
        health.SQL["tables_without_rls"](),
        health.SQL["owned"](),
        health.SQL["audit_rights"](),
    )
    version, role, superuser, bypasses, now, size = server
    unguarded, owned, rights = (tuple(row[0] for row in rows) for rows in lists)
    return DatabaseCheck(
        version=version,
        role=role,
        superuser=superuser,
        bypasses_rls=bypasses,
        now=now,
        size=size,
        tables_without_rls=unguarded,
        owned_tables=owned,
        audit_rights=rights,
    )
