"""The proof that what was erased was erased by the rules: its records hold, and it stayed away."""

from collections.abc import Iterator
from dataclasses import replace

from waybook.record.moment import rfc3339
from waybook.store import tombstones
from waybook.store.tombstones import Erasure, first_broken, read_erasures, read_head
from waybook.usecases.call import RequestContext
from waybook.usecases.verify_audit import AuditVerdict, Subject

ERASURE = "erasure"
#: What was erased, in words.
ERASURE_LABELS = {"org": "the org was erased", "archived": "archived plans and runs were erased"}


async def contexts_of_all_orgs(ctx: RequestContext) -> list[RequestContext]:
    """A call into each org there is or was, for an operator who verifies them all."""
    orgs = await ctx.services.database.list_org_ids(tombstones.SQL["all_org_ids"]())
    return [replace(ctx, caller=replace(ctx.caller, org_id=org_id)) for org_id in sorted(orgs)]


async def verify_erasures(ctx: RequestContext) -> list[AuditVerdict]:
    """One verdict for each erasure; from the first broken one on, none can be trusted."""
    kept, stones, head, returned = await ctx.read(
        tombstones.SQL["erasures"](),
        tombstones.SQL["tombstones"](),
        tombstones.SQL["erasure_head"](),
        tombstones.SQL["returned"](),
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
