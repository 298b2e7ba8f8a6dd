"""Base class of drafts: a draft is a plan or run while one call changes it.

A draft records every change, so that no change is missing from the audit.
"""

from collections.abc import Mapping

from waybook.core.changes import WHOLE_ROW, Change, Entity, Entry, Event, as_json, text_hash
from waybook.core.decision_context import DecisionContext
from waybook.core.usage import NO_USAGE, Totals, Usage
from waybook.json_values import Json


class BaseDraft:
    #: Columns whose names differ from the names of the fields.
    column_names: Mapping[str, str] = {}

    def __init__(self, context: DecisionContext) -> None:
        self.moment = context
        self._changes: list[Change] = []
        self._entries: list[Entry] = []
        #: Long texts of new rows, by row id. The audit stores only their hashes.
        self._texts: dict[str, tuple[str, ...]] = {}

    def insert(self, entity: Entity, row_id: str, row: dict[str, Json]) -> None:
        if self.moment.is_simulated and entity in {Entity.PLAN, Entity.RUN}:
            row["simulated"] = True
        self.note(entity, row_id, WHOLE_ROW, None, row)

    def store_text(self, entity: Entity, row_id: str, *texts: str, **row: Json) -> None:
        """Record the creation of a row with long texts. The audit stores only their hashes."""
        self._texts[row_id] = texts
        self.insert(entity, row_id, {**row, "content_hash": text_hash(*texts)})

    def insert_usage(
        self, entity: Entity, row_id: str, before: Totals, usage: Usage, **row: Json
    ) -> Totals:
        """Record the usage of an attempt, and return the new totals of the plan or run."""
        actor, totals = self.moment.actor, before.plus(usage)
        used: dict[str, Json] = {
            **row,
            **usage._asdict(),
            "at": as_json(self.moment.now),
            "by": actor.user,
            "session": actor.session,
        }
        self.insert(Entity.USAGE, self.moment.new_uuid(), used)
        old = None if before == NO_USAGE else before._asdict()
        self.note(entity, row_id, "usage", old, totals._asdict())
        return totals

    def note(self, entity: Entity, row_id: str, field: str, old: Json, new: Json) -> None:
        self._changes.append(Change(entity, row_id, field, old, new))

    def note_changes(
        self, entity: Entity, row_id: str, row: object, values: Mapping[str, object]
    ) -> None:
        """Record the fields of a row that get a new value."""
        for name, new in values.items():
            old = getattr(row, name)
            if old != new:
                column = self.column_names.get(name, name)
                self._changes.append(Change(entity, row_id, column, as_json(old), as_json(new)))

    def record(self, event: Event, **details: Json) -> None:
        """Write the changes since the last audit entry into a new entry."""
        self._entries.append(Entry(event, details, tuple(self._changes)))
        self._changes = []

    def entries(self) -> tuple[Entry, ...]:
        """Return the audit entries. Raise an error if a change is in none of them."""
        if self._changes:
            unrecorded = [f"{change.entity}.{change.field}" for change in self._changes]
            raise AssertionError(f"changes without an audit entry: {unrecorded}")
        return tuple(self._entries)
