"""Replays audit entries. The result must always equal the stored rows."""

from collections.abc import Iterable, Iterator, Mapping

from waybook.core.changes import WHOLE_ROW, Change, Entity
from waybook.json_values import Json

Row = dict[str, Json]
Rows = dict[str, dict[str, Row]]
ChangedFields = dict[str, Json]

ENTITIES = frozenset(map(str, Entity))


class ReplayError(ValueError):
    """The old value of a change does not match the row."""


def replay(changes: Iterable[Change]) -> Rows:
    """Apply the changes in order to an empty set of rows."""
    rows: Rows = {}
    for change in changes:
        _apply(rows.setdefault(str(change.entity), {}), change)
    return {entity: entity_rows for entity, entity_rows in rows.items() if entity_rows}


def _apply(kind: dict[str, Row], change: Change) -> None:
    if change.field != WHOLE_ROW:
        row = kind.get(change.id)
        if row is None or row.get(change.field) != change.old:
            raise ReplayError(f"{change.entity} {change.id}: {change.field} was not {change.old!r}")
        row[change.field] = change.new
    elif isinstance(change.new, dict) and change.old is None and change.id not in kind:
        kind[change.id] = dict(change.new)
    elif change.new is None and change.id in kind and _is_same_row(kind[change.id], change.old):
        del kind[change.id]
    else:
        raise ReplayError(f"{change.entity} {change.id}: cannot make or remove this row")


def _is_same_row(row: Row, old: Json) -> bool:
    """Return whether two rows are equal. A missing column equals null."""
    return isinstance(old, dict) and _values(row) == _values(old)


def _values(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def differences(replayed: Rows, stored: Rows) -> list[str]:
    messages: list[str] = []
    for entity in sorted({*replayed, *stored}):
        ours, theirs = replayed.get(entity, {}), stored.get(entity, {})
        for row_id in sorted({*ours, *theirs}):
            messages += _row_differences(f"{entity} {row_id}", ours.get(row_id), theirs.get(row_id))
    return messages


def _row_differences(name: str, replayed: Row | None, stored: Row | None) -> list[str]:
    if replayed is None:
        return [f"{name}: stored, but no audit entry made it"]
    if stored is None:
        return [f"{name}: the audit made it, but it is not stored"]
    return [
        f"{name}: {field} is {stored.get(field)!r}, the audit says {replayed.get(field)!r}"
        for field in sorted({*replayed, *stored})
        if replayed.get(field) != stored.get(field)
    ]


def changes_from_json(raw: Json) -> Iterator[Change]:
    """Yield the row changes that one element of an audit entry describes."""
    match raw:
        case dict():
            yield change_from_json(raw)
        case [str(entity), str(row_id), dict(fields)] if entity in ENTITIES:
            for field, values in fields.items():
                yield Change(Entity(entity), row_id, field, *_old_and_new(values))
        case _:
            raise ReplayError(f"not a change: {raw!r}")


def changed_rows(details: Mapping[str, Json]) -> Iterator[tuple[str, str, ChangedFields]]:
    """Yield the entity, the id and the changed fields of each row that an audit entry changes."""
    groups = details.get("changes")
    if not isinstance(groups, list):
        raise ReplayError("the entry has no list of changes")
    for group in groups:
        match group:
            case [str(entity), str(row_id), dict(fields)]:
                yield entity, row_id, fields
            case _:
                raise ReplayError(f"not a group of changes: {group!r}")


def new_value(values: Json) -> Json:
    if not isinstance(values, list) or not values:
        raise ReplayError(f"not the values of a change: {values!r}")
    return values[-1]


def _old_and_new(values: Json) -> tuple[Json, Json]:
    match values:
        case [new]:
            return None, new
        case [old, new]:
            return old, new
        case _:
            raise ReplayError(f"not the values of a change: {values!r}")


def change_from_json(raw: Mapping[str, Json]) -> Change:
    try:
        entity = Entity(str(raw["entity"]))
        return Change(entity, str(raw["id"]), str(raw["field"]), raw["from"], raw["to"])
    except (KeyError, ValueError) as error:
        raise ReplayError(f"not a change: {dict(raw)!r}") from error
