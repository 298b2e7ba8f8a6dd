"""Writes orgs with their audit entries."""

from collections.abc import Iterator

from waybook.accounts.model import Org
from waybook.core.changes import Entity, Entry
from waybook.json_values import Json
from waybook.store.audit import Patches, WriteContext, audit_statements, sealed_entries
from waybook.store.driver.queries import Query, Statement, Value, load

SQL = load("accounts/writer")


def statements(
    org: Org, entries: tuple[Entry, ...], write_context: WriteContext
) -> list[Statement]:
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
    for patch in patches.inserts[Entity.USER]:
        yield _filled(SQL["insert_user"], patch.id, patch.values)
    for patch in patches.updates[Entity.USER]:
        if "disabled_at" in patch.values:
            yield _filled(SQL["enable_user"], patch.id, patch.values)
        if "scopes" in patch.values:
            yield _filled(SQL["set_user_scopes"], patch.id, patch.values)


def _tokens(patches: Patches) -> Iterator[Statement]:
    for patch in patches.inserts[Entity.TOKEN]:
        yield _filled(SQL["insert_token"], patch.id, patch.values)
    for patch in patches.updates[Entity.TOKEN]:
        yield _filled(SQL["revoke_token"], patch.id, patch.values)


def _filled(query: Query, row_id: str, values: dict[str, Json]) -> Statement:
    parameters: dict[str, Value] = {
        name: _to_sql_value(values[name]) for name in query.places if name != "id"
    }
    return query(id=row_id, **parameters)


def _to_sql_value(value: Json) -> Value:
    if isinstance(value, list):
        return f"{{{','.join(map(str, value))}}}"
    if isinstance(value, dict):
        raise TypeError("a column was given a structure")
    return value
