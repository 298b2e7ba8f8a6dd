"""Defines the result of a diagnostic check, and checks the role that owns the tables."""

import asyncio
from enum import StrEnum
from typing import NamedTuple

from waybook.store.maintenance.migrate import MAINTENANCE_ROLE
from waybook.store.maintenance.owner import examine_owner


class CheckState(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckResult(NamedTuple):
    name: str
    state: CheckState
    message: str
    remedy: str | None = None


async def examined_owner(owner_dsn: str) -> CheckResult:
    role = await asyncio.to_thread(examine_owner, owner_dsn)
    if role.refusal is not None:
        return CheckResult("owner", CheckState.FAIL, role.refusal, "then run waybook doctor again")
    if not role.is_exempt:
        return CheckResult("owner", CheckState.OK, f"{role.name}, bound by row-level security")
    kind = "is a superuser" if role.superuser else "has BYPASSRLS"
    message = (
        f"{role.name} {kind}, so row-level security does not apply to it; it switches to "
        f"{MAINTENANCE_ROLE} to erase and retain"
    )
    todo = (
        "let an ordinary role own the tables: see docs/how-to/use-your-own-postgresql.md"
        if role.superuser
        else f"as an administrator run: alter role {role.name} nobypassrls"
    )
    return CheckResult("owner", CheckState.WARN, message, todo)
