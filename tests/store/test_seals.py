"""Seals of audit entries, which depend on every field of the entry and on the seal before it."""

from datetime import UTC, datetime
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from waybook.store.audit import GENESIS, SealedEntry, first_broken, seal


def make_entry(seq: int, *texts: str) -> SealedEntry:
    event, actor, channel, session, details = texts
    at = datetime(2030, 1, 1, tzinfo=UTC)
    return SealedEntry("p-1", "plan", seq, at, event, actor, channel, session, details)


def make_chain(length: int, previous: bytes = GENESIS) -> list[SealedEntry]:
    entries = []
    for seq in range(1, length + 1):
        entry = make_entry(seq, "step_started", "ann", "mcp", "s-1", f'{{"n":{seq}}}')
        previous = seal(entry, previous)
        entries.append(entry._replace(hash=previous))
    return entries


def test_hashes_of_different_audit_entries_differ() -> None:
    combinations = [*product(["", "a", "b", "ab"], repeat=5)]
    assert len({seal(make_entry(1, *texts), GENESIS) for texts in combinations}) == len(
        combinations
    )


@given(st.binary(min_size=32, max_size=32))
def test_audit_seal_of_an_entry_depends_on_the_previous_seal(past: bytes) -> None:
    (entry,) = make_chain(1)
    assert (seal(entry, past) == entry.hash) == (past == GENESIS)


@given(st.integers(2, 6), st.data())
def test_recomputed_seal_of_changed_entry_breaks_the_next_entry(
    length: int, data: st.DataObject
) -> None:
    entries = make_chain(length)
    assert first_broken(entries) is None
    number = data.draw(st.integers(1, length - 1))
    past = entries[number - 2].hash if number > 1 else GENESIS
    forged = entries[number - 1]._replace(actor="mallory")
    entries[number - 1] = forged._replace(hash=seal(forged, past))
    broken = first_broken(entries)
    assert broken is not None
    assert broken[0] == number + 1
