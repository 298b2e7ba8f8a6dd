"""The owner's other eraser: a person's name, wherever we wrote it, and the chains sealed anew."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import orjson

from waybook.errors import NotFound, Refused
from waybook.record.changes import WHOLE_ROW, Change, Entity, Event
from waybook.record.moment import Channel, Json
from waybook.record.pseudonyms import (
    Renaming,
    names_a_person,
    rejected_by,
    renamed_answer,
    renamed_details,
    without_members,
)
from waybook.record.replay import replay
from waybook.store.audit import GENESIS, Sealed, changes_of, seal
from waybook.store.erasure import (
    MOST_PASSES,
    Erased,
    Progress,
    Written,
    is_sound,
    lock_org,
    record,
    tables_in_order,
    the_time,
    whole_chain,
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
        gone = _members(owner, to.name)
        counts = Counter(_without_user(owner, to.name))
        stones = _chains_sealed_anew(owner, to, progress)
        stones += org_sealed_anew(owner, Leaving(org_id, to, gone, by))
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


def _members(owner: Owner, name: str) -> frozenset[str]:
    """The ids of the user and of all tokens, which go with them."""
    found = owner.ask(SQL["members_of"], ids=_user_ids(owner, name))
    return frozenset(row[0] for row in found)


def _user_ids(owner: Owner, name: str) -> list[UUID]:
    return [row[0] for row in owner.ask(SQL["user_ids"], name=name)]


def _without_user(owner: Owner, name: str) -> dict[str, int]:
    """Delete the user with tokens and browsers; what they made stays."""
    columns: dict[str, str] = dict(owner.ask(SQL["user_tables"]))
    ids = _user_ids(owner, name)
    order = [table for table in tables_in_order(owner) if table in columns]
    return {t: owner.change(SQL["delete_users_rows"], t, columns[t], ids=ids) for t in order}


# The audit


def _chains_sealed_anew(
    owner: Owner, to: Renaming, progress: Progress
) -> list[tuple[Tombstone, int]]:
    """Seal every chain anew that names the person, until none is left that does.

    Raises:
        Refused: one is broken; whoever seals it anew hides that.
    """
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
    entries = whole_chain(owner, subject_id)
    _refuse_broken(f"{subject} {subject_id}", entries, end)
    anew = list(_resealed(entries, to))
    changed = [new for old, new in zip(entries, anew, strict=True) if new != old]
    touched = sum(old[:-1] != new[:-1] for old, new in zip(entries, anew, strict=True))
    if touched:
        _write_anew(owner, changed)
        owner.change(SQL["move_end"], subject, id=subject_id, hash=anew[-1].hash)
    before = bytes(end[0][1])
    return Tombstone(subject, subject_id, len(anew), before, anew[-1].hash), touched


def _write_anew(owner: Owner, entries: list[Sealed]) -> None:
    owner.do_each(SQL["seal_anew"], [entry._asdict() for entry in entries])


def _refuse_broken(name: str, entries: list[Sealed], end: Rows) -> None:
    """Whoever seals a broken chain anew hides that it was broken.

    Raises:
        Refused: it is.
    """
    if not end or not is_sound(entries, bytes(end[0][1])):
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


class Leaving(NamedTuple):
    """Somebody who is erased: of which org, what stands in the place of their name, what goes."""

    org_id: UUID
    to: Renaming
    gone: frozenset[str]
    by: str


def org_sealed_anew(owner: Owner, who: Leaving) -> list[tuple[Tombstone, int]]:
    """Seal the chain of the org anew without the person; one entry more says that they went."""
    end = owner.ask(SQL["org_end"])
    entries = whole_chain(owner, str(who.org_id))
    if not entries:
        return []
    _refuse_broken(f"org {who.org_id}", entries, end)
    blank = [_without(entry, who) for entry in entries]
    anew = list(_resealed([*blank, *_farewell(owner, blank, who)], who.to))
    touched = sum(old[:-1] != new[:-1] for old, new in zip(entries, anew, strict=False))
    added = anew[len(entries) :]
    if touched or added:
        _write_anew(owner, anew[: len(entries)])
        owner.do_each(SQL["add_entry"], [entry._asdict() for entry in added])
        owner.change(SQL["move_org_end"], seq=anew[-1].seq, hash=anew[-1].hash)
    before = bytes(end[0][1])
    stone = Tombstone("org", str(who.org_id), len(anew), before, anew[-1].hash)
    return [(stone, touched + len(added))] if touched or added else []


def _without(entry: Sealed, who: Leaving) -> Sealed:
    told = orjson.loads(entry.details)
    blank = without_members(told, who.gone, who.to)
    return entry if blank == told else entry._replace(details=as_json_text(blank))


def _farewell(owner: Owner, entries: list[Sealed], who: Leaving) -> list[Sealed]:
    """The entry that takes the rows of whoever goes out of the replay, if there are any."""
    told = (change for one in entries for change in changes_of(orjson.loads(one.details)))
    changes: list[Json] = [
        Change(Entity(entity), row_id, WHOLE_ROW, row, None).as_json()
        for entity, rows in replay(told).items()
        for row_id, row in rows.items()
        if row_id in who.gone
    ]
    if not changes:
        return []
    details: dict[str, Json] = {"action": "user_erased", "user": who.to.pseudonym}
    last = entries[-1]
    return [
        last._replace(
            seq=last.seq + 1,
            at=max(the_time(owner), last.at),
            event=Event.PLAN_MODIFIED,
            actor=who.by,
            channel=Channel.CLI,
            session=None,
            details=as_json_text({**details, "changes": changes}),
        )
    ]


# The rest


def _renamed_columns(owner: Owner, to: Renaming) -> Counter[str]:
    counts: Counter[str] = Counter()
    asked = {"name": to.name, "pseudonym": to.pseudonym, "reason": rejected_by("")}
    for table, column in owner.ask(SQL["naming_columns"]):
        if names_a_person(column):
            counts[table] += owner.change(SQL["rename"], table, column, words=[*WORDS], **asked)
    return counts


def _renamed_answers(owner: Owner, to: Renaming) -> Counter[str]:
    counts: Counter[str] = Counter()
    for table, column in owner.ask(SQL["json_of_ours"]):
        named = owner.ask(SQL["answers_naming"], table, column, told=_in_json(to.name))
        for place, text in named:
            value = as_json_text(renamed_answer(orjson.loads(text), to))
            if value != text:
                counts[table] += owner.change(
                    SQL["rename_answer"], table, column, value=value, place=place
                )
    return counts


def _in_json(name: str) -> str:
    """A name as it stands within a JSON text."""
    return as_json_text(name)[1:-1]
