"""The owner's other eraser: a person's name, wherever we wrote it, and the chains sealed anew."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import orjson

from waybook.errors import NotFound, Refused
from waybook.record.moment import Channel
from waybook.record.pseudonyms import (
    Renaming,
    names_a_person,
    rejected_by,
    renamed_answer,
    renamed_details,
)
from waybook.store.audit import GENESIS, Sealed, first_broken, read_entries, seal
from waybook.store.erasure import (
    MOST_PASSES,
    Erased,
    Progress,
    Written,
    lock_org,
    record,
    tables_in_order,
)
from waybook.store.owners import Owner, Rows, owning
from waybook.store.sql import as_json_text, load
from waybook.store.tombstones import Tombstone

SQL = load("renaming")

#: The words that stand before a name where we write one: none, the doors, why a plan ended.
WORDS = ("", rejected_by(""), *(f"{door}:" for door in Channel))


def erase_user(owner_dsn: str, org_id: UUID, to: Renaming, by: str, progress: Progress) -> Erased:
    """Put the pseudonym in the place of the name, everywhere; the user and all tokens go.

    Raises:
        NotFound: nobody of that name ever did anything here.
    """
    with owning(owner_dsn, org_id) as owner:
        head = lock_org(owner)
        counts = Counter(_without_user(owner, to.name))
        stones = _chains_sealed_anew(owner, to, progress)
        counts["audit_entry"] += sum(touched for _, touched in stones)
        counts.update(_renamed_columns(owner, to))
        counts.update(_renamed_answers(owner, to))
        told = {table: rows for table, rows in sorted(counts.items()) if rows}
        if not told:
            raise NotFound(f"nobody called “{to.name}” ever did anything in this org", user=to.name)
        written = Written(
            what="user",
            by=to.pseudonym if by == to.name else by,
            counts=told,
            stones=[stone for stone, _ in stones],
            who=to.pseudonym,
        )
        number = record(owner, head, written).number
    return Erased(org_id, number, told, to.pseudonym)


# The user


def _without_user(owner: Owner, name: str) -> dict[str, int]:
    """Delete the user with tokens and browsers; what they made stays."""
    columns: dict[str, str] = dict(owner.ask(SQL["user_tables"]))
    ids = [row[0] for row in owner.ask(SQL["user_ids"], name=name)]
    order = [table for table in tables_in_order(owner) if table in columns]
    return {t: owner.do(SQL["delete_users_rows"], t, columns[t], ids=ids) for t in order}


# The audit


def _chains_sealed_anew(
    owner: Owner, to: Renaming, progress: Progress
) -> list[tuple[Tombstone, int]]:
    """Seal every chain anew that names the person, until none is left that does."""
    stones: dict[str, tuple[Tombstone, int]] = {}
    for _ in range(MOST_PASSES):
        named = owner.ask(SQL["chains_naming"], name=to.name, told=_in_json(to.name))
        waiting = [row for row in named if row[1] not in stones]
        for done, (subject, subject_id, _) in enumerate(waiting, start=1):
            stones[subject_id] = _sealed_anew(owner, subject, subject_id, to)
            progress(done, len(waiting))
        if not waiting:
            break
    return [found for found in stones.values() if found[1]]


def _sealed_anew(
    owner: Owner, subject: str, subject_id: str, to: Renaming
) -> tuple[Tombstone, int]:
    end = owner.ask(SQL["lock_end"], subject, id=subject_id)
    entries = read_entries(owner.ask(SQL["whole_chain"], id=subject_id))
    _refuse_broken(f"{subject} {subject_id}", entries, end)
    anew = list(_resealed(entries, to))
    changed = [new for old, new in zip(entries, anew, strict=True) if new != old]
    touched = sum(old[:-1] != new[:-1] for old, new in zip(entries, anew, strict=True))
    if touched:
        owner.do_each(SQL["seal_anew"], [entry._asdict() for entry in changed])
        owner.do(SQL["move_end"], subject, id=subject_id, hash=anew[-1].hash)
    before = bytes(end[0][1])
    return Tombstone(subject, subject_id, len(anew), before, anew[-1].hash), touched


def _refuse_broken(name: str, entries: list[Sealed], end: Rows) -> None:
    """Whoever seals a broken chain anew hides that it was broken.

    Raises:
        Refused: it is.
    """
    sound = end and not first_broken(entries) and entries[-1].hash == bytes(end[0][1])
    if not sound:
        raise Refused(
            f"the audit of {name} is broken, and sealing it anew would hide that; nothing was "
            "erased. Look into it first: waybook audit verify says what is wrong"
        )


def _resealed(entries: list[Sealed], to: Renaming) -> Iterator[Sealed]:
    """The chain without the name, each entry sealed upon the new one before it."""
    previous = GENESIS
    for entry in entries:
        told = orjson.loads(entry.details)
        renamed = renamed_details(told, to)
        new = entry._replace(
            actor=str(to.of(entry.actor)),
            details=entry.details if renamed == told else as_json_text(renamed),
        )
        previous = seal(new, previous)
        yield new._replace(hash=previous)


# The rest


def _renamed_columns(owner: Owner, to: Renaming) -> Counter[str]:
    counts: Counter[str] = Counter()
    asked = {"name": to.name, "pseudonym": to.pseudonym, "reason": rejected_by("")}
    for table, column in owner.ask(SQL["naming_columns"]):
        if names_a_person(column):
            counts[table] += owner.do(SQL["rename"], table, column, words=[*WORDS], **asked)
    return counts


def _renamed_answers(owner: Owner, to: Renaming) -> Counter[str]:
    counts: Counter[str] = Counter()
    for table, column in owner.ask(SQL["json_of_ours"]):
        named = owner.ask(SQL["answers_naming"], table, column, told=_in_json(to.name))
        for place, text in named:
            value = as_json_text(renamed_answer(orjson.loads(text), to))
            if value != text:
                counts[table] += owner.do(
                    SQL["rename_answer"], table, column, value=value, place=place
                )
    return counts


def _in_json(name: str) -> str:
    """A name as it stands within a JSON text."""
    return as_json_text(name)[1:-1]
