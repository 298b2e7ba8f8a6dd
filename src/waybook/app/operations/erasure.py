"""Erasure of orgs and users, deletion of expired data, and verification of erasures.

Only an operator can erase, on the command line. Each erasure leaves a record.
"""

import asyncio
from dataclasses import replace
from secrets import token_hex
from threading import Event
from typing import TypeAlias

from waybook.app.operations.audit_verification import AuditVerdict
from waybook.app.request.request_context import RequestContext
from waybook.core.pseudonyms import Pseudonymization
from waybook.errors import InvalidInput
from waybook.json_values import rfc3339
from waybook.settings import Settings
from waybook.store.audit import Subject
from waybook.store.maintenance import erasure as erasure_store
from waybook.store.maintenance import owner, retention, user_erasure
from waybook.store.maintenance.erasure import Progress
from waybook.store.maintenance.owner import Erasure, first_broken, read_erasures, read_head
from waybook.store.maintenance.retention import RetentionPolicy

Erased: TypeAlias = erasure_store.Erased
_PSEUDONYM_PREFIX = "erased-"
#: Days for which answers stored for retries, and ended browser sessions, are kept.
_KEEP_DAYS = 30


async def erase_org(owner_dsn: str, slug: str, *, by: str, progress: Progress) -> Erased:
    """Erase an org and all its data.

    Raises:
        NotFound: there is no org of this name.
        Busy: another transaction holds locks on the org's rows. Nothing was erased.
    """
    org_id = await asyncio.to_thread(erasure_store.find_org, owner_dsn, slug)
    return await asyncio.to_thread(erasure_store.erase_org, owner_dsn, org_id, by, progress)


async def erase_user(
    owner_dsn: str, slug: str, user: str, *, by: str, progress: Progress
) -> Erased:
    """Erase a user: replace the name with a random pseudonym.

    Raises:
        NotFound: there is no such org, or no user of that name ever acted in it.
        InvalidInput: the user was erased already.
        Refused: an audit chain is broken, and the erasure would hide this.
        Busy: another transaction holds locks on the rows. Nothing was erased.
    """
    if user.startswith(_PSEUDONYM_PREFIX):
        raise InvalidInput(f"“{user}” is the pseudonym of an erased user")
    org_id = await asyncio.to_thread(erasure_store.find_org, owner_dsn, slug)
    to = Pseudonymization(user, f"{_PSEUDONYM_PREFIX}{token_hex(4)}")
    return await asyncio.to_thread(user_erasure.erase_user, owner_dsn, org_id, to, by, progress)


async def retain(owner_dsn: str, settings: Settings) -> dict[str, int]:
    """Delete expired data in one pass. Return the number of deleted rows of each table.

    Raises:
        Busy: another transaction holds locks on the rows for too long.
        Misconfigured: the database role does not own the tables.
    """
    keep = RetentionPolicy(
        calls=settings.keep_calls_days,
        answers=_KEEP_DAYS,
        archived=settings.keep_archived_days,
        sessions=_KEEP_DAYS,
    )
    stopped = Event()
    try:
        return await asyncio.to_thread(retention.apply_retention, owner_dsn, keep, stopped.is_set)
    finally:
        # If this call is canceled, the thread stops early, and the next pass deletes the rest.
        stopped.set()


_ERASURE = "erasure"
_ERASURE_LABELS = {"org": "the org was erased", "archived": "archived plans and runs were erased"}


async def contexts_of_all_orgs(ctx: RequestContext) -> list[RequestContext]:
    """Return a request context for each org that exists or was erased."""
    orgs = await ctx.services.database.list_org_ids(owner.SQL["all_org_ids"]())
    return [replace(ctx, caller=replace(ctx.caller, org_id=org_id)) for org_id in sorted(orgs)]


async def verify_erasures(ctx: RequestContext) -> list[AuditVerdict]:
    erasure_rows, stones, head, returned = await ctx.read(
        owner.SQL["erasures"](),
        owner.SQL["tombstones"](),
        owner.SQL["erasure_head"](),
        owner.SQL["returned"](),
    )
    erasures = read_erasures(erasure_rows, stones)
    broken = first_broken(erasures, read_head(head))
    back: dict[int, list[str]] = {}
    for row in returned:
        message = f"{row.subject} {row.subject_id} was erased, and is there again"
        back.setdefault(row.erasure, []).append(message)
    number, error = broken or (None, "")
    verdicts = [
        AuditVerdict(
            subject=Subject(_ERASURE, str(erasure.number)),
            entries=sum(stone.entries for stone in erasure.tombstones if not stone.seal_after),
            errors=(*([error] if number == erasure.number else ()), *back.get(erasure.number, ())),
            first_broken_entry=number if number == erasure.number else None,
            note=_describe_erasure(erasure),
        )
        for erasure in erasures
    ]
    if number is not None and number > len(erasures):
        missing = Subject(_ERASURE, str(number))
        verdicts.append(
            AuditVerdict(subject=missing, entries=0, errors=(error,), first_broken_entry=number)
        )
    return verdicts


def _describe_erasure(erasure: Erasure) -> str:
    label = _ERASURE_LABELS.get(erasure.what, f"the user who is now {erasure.who} was erased")
    gone = sum(stone.seal_after is None for stone in erasure.tombstones)
    resealed = len(erasure.tombstones) - gone
    chains = f"chains gone: {gone}" if gone or not resealed else f"chains resealed: {resealed}"
    return f"{label} at {rfc3339(erasure.at)} by {erasure.by}; {chains}"
