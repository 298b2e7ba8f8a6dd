"""Looks up the full ids of short ids."""

from collections import defaultdict
from typing import Final
from uuid import UUID

from waybook.app.request.request_context import RequestContext
from waybook.core.short_ids import IdKind, looks_like_short_id, parse_short_id, usual_form
from waybook.errors import NextCall, NotFound
from waybook.store.driver.queries import is_id
from waybook.store.short_ids import ShortIdCache, lookup_statement

_NEXT_CALLS: Final = {
    IdKind.RUN: NextCall("list_dags", {}, "List the workflows and runs."),
    IdKind.JOB: NextCall("get_next_job", {}, "Claim a job."),
}
_LIST_PLANS: Final = NextCall("list_active_plans", {}, "List the open plans.")


async def full_id_of(ctx: RequestContext, kind: IdKind, text: str, at: str) -> str:
    """Return the full id of a short id. Any other text stays unchanged."""
    if not looks_like_short_id(text):
        return text
    found = await find_full_id(ctx, text, kind)
    if found is None:
        raise id_not_found(kind, at, text)
    return found


async def find_full_id(ctx: RequestContext, text: str, *kinds: IdKind) -> str | None:
    if parse_short_id(text) is None:
        return None
    found = await look_up(ctx, {(kind, usual_form(text)) for kind in kinds})
    return next(iter(found.values()), None)


async def look_up(
    ctx: RequestContext, wanted: set[tuple[IdKind, str]]
) -> dict[tuple[IdKind, str], str]:
    org_id, cache = ctx.caller.org_id, ctx.services.short_ids
    known = {
        (kind, short): full_id
        for kind, short in wanted
        if (full_id := cache.get(org_id, kind, short)) is not None
    }
    missing = defaultdict(set)
    for kind, short in wanted - known.keys():
        if (key := parse_short_id(short)) is not None:
            missing[kind].add(key)
    if missing:
        statements = [lookup_statement(kind, keys) for kind, keys in missing.items()]
        for kind, rows in zip(missing, await ctx.read(*statements), strict=True):
            known |= {(kind, cache.add(org_id, kind, row.id)): row.id for row in rows}
            for row in rows if kind is IdKind.STEP else ():
                ctx.cache_step_plan(row.id, row.plan_id)
    return known


def id_not_found(kind: IdKind, at: str, text: str, other: IdKind | None = None) -> NotFound:
    problem = f"there is no {kind} {text.strip()!r} here; check it for typos"
    if other is not None:
        problem = f"{text.strip()!r} is the id of a {other}, not of a {kind}"
    return NotFound(
        f"{at}: {problem}; copy the id from a reply",
        next_call=_NEXT_CALLS.get(kind, _LIST_PLANS),
        argument=at,
    )


def logged_step_id(org_id: UUID, cache: ShortIdCache, *named: object) -> str | None:
    """Return the full id of the first value that identifies a step. Only the cache is searched."""
    for text in named:
        if isinstance(text, str):
            is_full = is_id(text)
            full_id = text.lower() if is_full else cache.find(org_id, IdKind.STEP, text)
            if full_id is not None:
                return full_id
    return None
