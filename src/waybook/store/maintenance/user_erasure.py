"""Erases a user: a pseudonym replaces the name everywhere, and audit hashes are computed again."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

import orjson

from waybook.core.changes import WHOLE_ROW, Change, Entity, Event, group_changes, replay
from waybook.core.decision_context import Channel
from waybook.core.pseudonyms import (
    Pseudonymization,
    is_person_field,
    pseudonymize_answer,
    pseudonymize_details,
    rejection_reason,
    remove_member_details,
)
from waybook.errors import NotFound, Refused
from waybook.store.audit import GENESIS, SealedEntry, brief_of, changes_of, seal
from waybook.store.driver.queries import as_json_text, first_column, first_value, load
from waybook.store.maintenance.erasure import (
    MAX_PASSES,
    Erased,
    Progress,
    is_chain_valid,
    lock_org,
    read_chain,
    record_erasure,
    tables_in_order,
    transaction_time,
)
from waybook.store.maintenance.owner import OwnerTransaction, Tombstone, owner_transaction

SQL = load("maintenance/user_erasure")

#: Texts that may come before a user's name in a stored value.
_NAME_PREFIXES = ("", rejection_reason(""), *(f"{door}:" for door in Channel))


def erase_user(
    owner_dsn: str, org_id: UUID, to: Pseudonymization, by: str, progress: Progress
) -> Erased:
    """Replace the user's name by a pseudonym everywhere, and delete the user and all tokens.

    Raises:
        NotFound: the name does not occur in this org.
    """
    with owner_transaction(owner_dsn, org_id) as owner:
        head = lock_org(owner)
        gone = frozenset(
            first_column(owner.fetch(SQL["members_of"], ids=_user_ids(owner, to.name)))
        )
        counts = Counter(_without_user(owner, to.name))
        stones = _reseal_chains(owner, to, progress)
        stones += _reseal_org_chain(owner, org_id, to, gone, by)
        counts["audit_entry"] += sum(touched for _, touched in stones)
        counts.update(_renamed_columns(owner, to))
        counts.update(_renamed_answers(owner, to))
        row_counts = {table: rows for table, rows in sorted(counts.items()) if rows}
        if not row_counts:
            raise NotFound(f"no user named “{to.name}” ever did anything in this org", user=to.name)
        written = record_erasure(
            owner,
            head,
            what="user",
            by=to.pseudonym if by == to.name else by,
            counts=row_counts,
            stones=[stone for stone, _ in stones],
            who=to.pseudonym,
        )
    return Erased(org_id, written.number, row_counts, to.pseudonym)


def _user_ids(owner: OwnerTransaction, name: str) -> list[UUID]:
    return first_column(owner.fetch(SQL["user_ids"], name=name))


def _without_user(owner: OwnerTransaction, name: str) -> dict[str, int]:
    agents = {t: owner.change(SQL["delete_agents"], t, name=name) for t in ("agent", "worker")}
    columns: dict[str, str] = dict(owner.fetch(SQL["user_tables"]))
    ids = _user_ids(owner, name)
    order = [table for table in tables_in_order(owner) if table in columns]
    rows = {t: owner.change(SQL["delete_users_rows"], t, columns[t], ids=ids) for t in order}
    return rows | agents


def _reseal_chains(
    owner: OwnerTransaction, to: Pseudonymization, progress: Progress
) -> list[tuple[Tombstone, int]]:
    stones: dict[str, tuple[Tombstone, int]] = {}
    for _ in range(MAX_PASSES):
        named = owner.fetch(SQL["chains_with_name"], name=to.name, name_json=_in_json(to.name))
        waiting = [chain for chain in named if chain[1] not in stones]
        for done, (subject, subject_id) in enumerate(waiting, start=1):
            stones[subject_id] = _reseal(owner, subject, subject_id, to)
            progress(done, len(waiting))
        if not waiting:
            break
    return [resealed for resealed in stones.values() if resealed[1]]


def _reseal(
    owner: OwnerTransaction, subject: str, subject_id: str, to: Pseudonymization
) -> tuple[Tombstone, int]:
    before = first_value(owner.fetch(SQL["lock_end"], subject, id=subject_id))
    entries = read_chain(owner, subject_id)
    _refuse_broken(f"{subject} {subject_id}", entries, before)
    resealed = list(_resealed(entries, to))
    changed = [new for old, new in zip(entries, resealed, strict=True) if new != old]
    touched = sum(old[:-1] != new[:-1] for old, new in zip(entries, resealed, strict=True))
    if touched:
        _rewrite_entries(owner, changed)
        owner.change(SQL["move_end"], subject, id=subject_id, hash=resealed[-1].hash)
    return Tombstone(subject, subject_id, len(resealed), before, resealed[-1].hash), touched


def _rewrite_entries(owner: OwnerTransaction, entries: list[SealedEntry]) -> None:
    owner.execute_many(
        SQL["reseal_entry"],
        [{**entry._asdict(), "brief": brief_of(entry.details)} for entry in entries],
    )


def _refuse_broken(name: str, entries: list[SealedEntry], end: bytes | None) -> None:
    """Raise an error if the audit chain is invalid, because new hashes would hide that."""
    if end is None or not is_chain_valid(entries, end):
        raise Refused(
            f"the audit of {name} is broken, and computing its seals again would hide that; "
            "nothing was erased. Look into it first: waybook audit verify says what is wrong"
        )


def _resealed(entries: list[SealedEntry], to: Pseudonymization) -> Iterator[SealedEntry]:
    previous = GENESIS
    for entry in entries:
        details = orjson.loads(entry.details)
        renamed = pseudonymize_details(details, to)
        new = entry._replace(
            actor=str(to.replace(entry.actor)),
            details=entry.details if renamed == details else as_json_text(renamed),
        )
        previous = seal(new, previous)
        yield new._replace(hash=previous)


def _reseal_org_chain(
    owner: OwnerTransaction, org_id: UUID, to: Pseudonymization, gone: frozenset[str], by: str
) -> list[tuple[Tombstone, int]]:
    """Remove the user's data from the org's audit, and add an entry for the user's deletion."""
    before = first_value(owner.fetch(SQL["org_end"]))
    entries = read_chain(owner, str(org_id))
    if not entries:
        return []
    _refuse_broken(f"org {org_id}", entries, before)
    blank = []
    for entry in entries:
        details = orjson.loads(entry.details)
        kept = remove_member_details(details, gone, to)
        blank.append(entry if kept == details else entry._replace(details=as_json_text(kept)))
    if changes := _deletions(blank, gone):
        erased = {
            "action": "user_erased",
            "user": to.pseudonym,
            "changes": group_changes(changes),
        }
        last = blank[-1]
        farewell = last._replace(
            seq=last.seq + 1,
            at=max(transaction_time(owner), last.at),
            event=Event.PLAN_MODIFIED,
            actor=by,
            channel=Channel.CLI,
            session=None,
            details=as_json_text(erased),
        )
        blank.append(farewell)
    resealed = list(_resealed(blank, to))
    touched = sum(old[:-1] != new[:-1] for old, new in zip(entries, resealed, strict=False))
    added = resealed[len(entries) :]
    if touched or added:
        _rewrite_entries(owner, resealed[: len(entries)])
        owner.execute_many(SQL["add_entry"], [entry._asdict() for entry in added])
        owner.change(SQL["move_org_end"], seq=resealed[-1].seq, hash=resealed[-1].hash)
    stone = Tombstone("org", str(org_id), len(resealed), before, resealed[-1].hash)
    return [(stone, touched + len(added))] if touched or added else []


def _deletions(entries: list[SealedEntry], gone: frozenset[str]) -> list[Change]:
    recorded = (change for entry in entries for change in changes_of(orjson.loads(entry.details)))
    return [
        Change(Entity(entity), row_id, WHOLE_ROW, row, None)
        for entity, rows in replay(recorded).items()
        for row_id, row in rows.items()
        if row_id in gone
    ]


def _renamed_columns(owner: OwnerTransaction, to: Pseudonymization) -> Counter[str]:
    counts: Counter[str] = Counter()
    values = {"name": to.name, "pseudonym": to.pseudonym, "reason": rejection_reason("")}
    for table, column in owner.fetch(SQL["naming_columns"]):
        if is_person_field(column):
            counts[table] += owner.change(
                SQL["rename"], table, column, words=[*_NAME_PREFIXES], **values
            )
    return counts


def _renamed_answers(owner: OwnerTransaction, to: Pseudonymization) -> Counter[str]:
    counts: Counter[str] = Counter()
    for table, column in owner.fetch(SQL["json_of_ours"]):
        named = owner.fetch(SQL["answers_with_name"], table, column, name_json=_in_json(to.name))
        for place, text in named:
            value = as_json_text(pseudonymize_answer(orjson.loads(text), to))
            if value != text:
                counts[table] += owner.change(
                    SQL["rename_answer"], table, column, value=value, place=place
                )
    return counts


def _in_json(name: str) -> str:
    return as_json_text(name)[1:-1]
