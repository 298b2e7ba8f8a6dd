"""The proof that what was erased was erased by the rules: its records hold, and it stayed away."""

from collections.abc import Iterator
from dataclasses import replace

from waybook.record.moment import rfc3339
from waybook.store import tombstones
from waybook.store.tombstones import Erasure, first_broken, read_erasures, read_head
from waybook.usecases.call import Call
from waybook.usecases.verify_audit import Subject, Verdict

ERASURE = "erasure"
#: What was erased, in words.
WORDS = {"org": "the org was erased", "archived": "archived plans and runs were erased"}


async def calls_of_everybody(call: Call) -> list[Call]:
    """A call into each org there is or was, for an operator who verifies them all."""
    orgs = await call.house.database.directory(tombstones.SQL["everybody"]())
    return [replace(call, caller=replace(call.caller, org_id=org_id)) for org_id in sorted(orgs)]


async def verify_erasures(call: Call) -> list[Verdict]:
    """One verdict for each erasure; from the first broken one on, none can be trusted."""
    kept, stones, head, returned = await call.read(
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
) -> Iterator[Verdict]:
    for erasure in erasures:
        faults = back.get(erasure.number, [])
        if broken is not None and broken[0] == erasure.number:
            faults = [broken[1], *faults]
        yield Verdict(
            subject=Subject(ERASURE, str(erasure.number)),
            entries=sum(stone.entries for stone in erasure.tombstones if not stone.seal_after),
            faults=tuple(faults),
            broken=broken[0] if broken and broken[0] == erasure.number else None,
            note=in_words(erasure),
        )
    if broken is not None and broken[0] > len(erasures):
        missing = Subject(ERASURE, str(broken[0]))
        yield Verdict(subject=missing, entries=0, faults=(broken[1],), broken=broken[0])


def in_words(erasure: Erasure) -> str:
    """What was erased, when and by whom."""
    said = WORDS.get(erasure.what, f"the user who is now {erasure.who} was erased")
    gone = sum(stone.seal_after is None for stone in erasure.tombstones)
    anew = len(erasure.tombstones) - gone
    chains = f"chains gone: {gone}" if gone or not anew else f"chains sealed anew: {anew}"
    return f"{said} at {rfc3339(erasure.at)} by {erasure.by}; {chains}"
