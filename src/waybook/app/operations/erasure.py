"""Erasure, by an operator: of an org with all that is its own, of a user with their name.

No tool does this, and no page; what is left says when it was done, by whom, and how much it was.

Retention: what is kept for a while only goes when its time is over.

The proof that what was erased was erased by the rules: its records hold, and it stayed away.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex
from threading import Event

from waybook.app.operations.audit_verification import AuditVerdict, Subject
from waybook.app.request.request_context import RequestContext
from waybook.core.pseudonyms import Pseudonymization
from waybook.errors import InvalidInput
from waybook.json_values import rfc3339
from waybook.settings import Settings
from waybook.store.maintenance import erasure as erasure_store
from waybook.store.maintenance import owner, retention, user_erasure
from waybook.store.maintenance.erasure import Erased, Progress
from waybook.store.maintenance.owner import Erasure, first_broken, read_erasures, read_head
from waybook.store.maintenance.retention import RetentionPolicy

#: What stands before what an erased user is called from then on.
PSEUDONYM_PREFIX = "erased-"


async def erase_org(owner_dsn: str, slug: str, *, by: str, progress: Progress) -> Erased:
    """Erase an org.

    Raises:
        NotFound: there is none of this name.
        Busy: somebody is at work there; nothing was erased.
    """
    org_id = await asyncio.to_thread(erasure_store.find_org, owner_dsn, slug)
    return await asyncio.to_thread(erasure_store.erase_org, owner_dsn, org_id, by, progress)


async def erase_user(
    owner_dsn: str, slug: str, user: str, *, by: str, progress: Progress
) -> Erased:
    """Erase a user: the name gives way to a pseudonym that says nothing.

    Raises:
        NotFound: there is no such org, or nobody of that name ever did anything there.
        InvalidInput: the user was erased already.
        Refused: a chain of the audit is broken, which this would hide.
        Busy: somebody is at work there; nothing was erased.
    """
    if user.startswith(PSEUDONYM_PREFIX):
        raise InvalidInput(f"“{user}” is what somebody is called who was erased already")
    org_id = await asyncio.to_thread(erasure_store.find_org, owner_dsn, slug)
    to = Pseudonymization(user, f"{PSEUDONYM_PREFIX}{token_hex(4)}")
    return await asyncio.to_thread(user_erasure.erase_user, owner_dsn, org_id, to, by, progress)


async def retain(owner_dsn: str, settings: Settings) -> dict[str, int]:
    """Keep house once; returns how many rows of each table went, and how many partitions.

    Raises:
        Busy: somebody is at work there, and does not come to an end; the next time will do.
        Misconfigured: this is not the owner of the database.
        Unavailable: the database cannot be reached.
    """
    keep = RetentionPolicy(
        calls=settings.keep_calls_days,
        answers=settings.keep_answers_days,
        archived=settings.keep_archived_days,
        sessions=settings.keep_sessions_days,
    )
    stopped = Event()
    try:
        return await asyncio.to_thread(retention.apply_retention, owner_dsn, keep, stopped.is_set)
    finally:
        stopped.set()  # whoever is cancelled leaves the rest to the next time


ERASURE = "erasure"
#: What was erased, in words.
ERASURE_LABELS = {"org": "the org was erased", "archived": "archived plans and runs were erased"}


async def contexts_of_all_orgs(ctx: RequestContext) -> list[RequestContext]:
    """A call into each org there is or was, for an operator who verifies them all."""
    orgs = await ctx.services.database.list_org_ids(owner.SQL["all_org_ids"]())
    return [replace(ctx, caller=replace(ctx.caller, org_id=org_id)) for org_id in sorted(orgs)]


async def verify_erasures(ctx: RequestContext) -> list[AuditVerdict]:
    """One verdict for each erasure; from the first broken one on, none can be trusted."""
    kept, stones, head, returned = await ctx.read(
        owner.SQL["erasures"](),
        owner.SQL["tombstones"](),
        owner.SQL["erasure_head"](),
        owner.SQL["returned"](),
    )
    erasures = read_erasures(kept, stones)
    broken = first_broken(erasures, read_head(head))
    back: dict[int, list[str]] = {}
    for number, subject, subject_id in returned:
        back.setdefault(number, []).append(f"{subject} {subject_id} was erased, and is there again")
    return [*_verdicts(erasures, broken, back)]


def _verdicts(
    erasures: list[Erasure], broken: tuple[int, str] | None, back: dict[int, list[str]]
) -> Iterator[AuditVerdict]:
    for erasure in erasures:
        faults = back.get(erasure.number, [])
        if broken is not None and broken[0] == erasure.number:
            faults = [broken[1], *faults]
        yield AuditVerdict(
            subject=Subject(ERASURE, str(erasure.number)),
            entries=sum(stone.entries for stone in erasure.tombstones if not stone.seal_after),
            errors=tuple(faults),
            first_broken_entry=broken[0] if broken and broken[0] == erasure.number else None,
            note=describe_erasure(erasure),
        )
    if broken is not None and broken[0] > len(erasures):
        missing = Subject(ERASURE, str(broken[0]))
        yield AuditVerdict(
            subject=missing, entries=0, errors=(broken[1],), first_broken_entry=broken[0]
        )


def describe_erasure(erasure: Erasure) -> str:
    """What was erased, when and by whom."""
    said = ERASURE_LABELS.get(erasure.what, f"the user who is now {erasure.who} was erased")
    gone = sum(stone.seal_after is None for stone in erasure.tombstones)
    anew = len(erasure.tombstones) - gone
    chains = f"chains gone: {gone}" if gone or not anew else f"chains sealed anew: {anew}"
    return f"{said} at {rfc3339(erasure.at)} by {erasure.by}; {chains}"
