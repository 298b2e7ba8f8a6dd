"""Changes brought together: what becomes of each row, whatever happened to it on the way."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from waybook.record.changes import WHOLE_ROW, Change, Entity
from waybook.record.moment import Json


@dataclass(slots=True)
class Patch:
    """One row's way through a decision: made or found, with these values, maybe removed."""

    id: str
    made: bool = False
    removed: bool = False
    values: dict[str, Json] = field(default_factory=dict)


class Patches:
    def __init__(self, changes: Iterable[Change]) -> None:
        """Bring the changes together, one patch per row, in order of first mention."""
        self._patches: dict[Entity, dict[str, Patch]] = {}
        for change in changes:
            kind = self._patches.setdefault(change.entity, {})
            patch = kind.get(change.id)
            if patch is None:
                patch = kind[change.id] = Patch(change.id)
            _merge(patch, change)

    def __contains__(self, entity: Entity) -> bool:
        """Whether something happened to rows of this kind."""
        return entity in self._patches

    def inserts(self, entity: Entity) -> list[Patch]:
        """The rows to insert."""
        return [p for p in self._of(entity) if p.made and not p.removed]

    def updates(self, entity: Entity) -> list[Patch]:
        """The rows to update."""
        return [p for p in self._of(entity) if not p.made and not p.removed]

    def deletes(self, entity: Entity) -> list[str]:
        """The ids of the rows to delete."""
        return [p.id for p in self._of(entity) if p.removed and not p.made]

    def _of(self, entity: Entity) -> Iterable[Patch]:
        found = self._patches.get(entity)
        return found.values() if found else ()


def _merge(patch: Patch, change: Change) -> None:
    if change.field != WHOLE_ROW:
        patch.values[change.field] = change.new
    elif isinstance(change.new, dict):
        patch.made = True
        patch.values.update(change.new)
    else:
        patch.removed = True
