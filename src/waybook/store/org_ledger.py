"""The writer of orgs: what was decided of users and tokens becomes rows and audit, together."""

from collections.abc import Iterator

from waybook.orgs.model import Org
from waybook.record.changes import Entity, Entry
from waybook.record.moment import Json
from waybook.store.ledger import WriteContext, audit_statements, sealed_entries
from waybook.store.patches import Patches
from waybook.store.sql import Query, Statement, Value, load

SQL = load("org_ledger")


def statements(
    org: Org, entries: tuple[Entry, ...], write_context: WriteContext
) -> list[Statement]:
    """Write the org as it is now, and whatever else these entries account for."""
    patches = Patches(change for entry in entries for change in entry.changes)
    sealed = sealed_entries(entries, ("org", org.id), write_context)
    return [
        SQL["update_org"](
            name=org.name,
            review_policy=org.review_policy,
            audit_seq=sealed[-1].seq,
            audit_hash=sealed[-1].hash,
            old_seq=write_context.head.seq,
        ),
        *_users(patches),
        *_tokens(patches),
        *audit_statements(sealed),
    ]


def _users(patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts(Entity.USER):
        yield _filled(SQL["insert_user"], patch.id, patch.values)
    for patch in patches.updates(Entity.USER):
        if "disabled_at" in patch.values:
            yield _filled(SQL["enable_user"], patch.id, patch.values)
        if "scopes" in patch.values:
            yield _filled(SQL["set_user_scopes"], patch.id, patch.values)


def _tokens(patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts(Entity.TOKEN):
        yield _filled(SQL["insert_token"], patch.id, patch.values)
    for patch in patches.updates(Entity.TOKEN):
        yield _filled(SQL["revoke_token"], patch.id, patch.values)


def _filled(query: Query, row_id: str, values: dict[str, Json]) -> Statement:
    """The query with the row's own values, each as it stands in the audit."""
    told: dict[str, Value] = {name: _told(values[name]) for name in query.places if name != "id"}
    return query(id=row_id, **told)


def _told(value: Json) -> Value:
    """A value, or a list of words as an array; the words are ours, and need no quotes."""
    if isinstance(value, list):
        return f"{{{','.join(map(str, value))}}}"
    if isinstance(value, dict):
        raise TypeError("a column was given a structure")
    return value
