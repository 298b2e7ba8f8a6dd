"""An audit entry as people read it: who did what, and what was changed from what to what."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from waybook.record.moment import Json
from waybook.store.audit import Sealed
from waybook.usecases.audit_trail import changes_in, told_beside
from waybook.usecases.deeds import deed
from waybook.usecases.verify_audit import RUN

#: So many changes of one entry stand on the page, and so much of each value.
MOST_CHANGES: Final = 30
LONGEST_VALUE: Final = 600
#: A value is short if it fits on a line; an entry with few short ones is open.
SHORT: Final = 80
FEW: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A value, cut where it is too long for a page."""

    text: str
    #: How many characters were left out.
    cut: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeShown:
    entity: str
    id: str
    field: str
    old: Shown
    new: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryShown:
    entry: Sealed
    what: str
    #: What it says beside its changes.
    told: tuple[tuple[str, Shown], ...]
    changes: tuple[ChangeShown, ...]
    #: How many changes were left out.
    more: int

    @property
    def at(self) -> datetime:
        return self.entry.at

    @property
    def address(self) -> str | None:
        """The page of what it is about."""
        pages = {"plan": "/plans/", "run": "/runs/"}
        page = pages.get(self.entry.subject)
        return f"{page}{self.entry.subject_id}" if page else None

    @property
    def short(self) -> bool:
        """Whether all of it can be seen at once."""
        values = [v for c in self.changes for v in (c.old, c.new)] + [v for _, v in self.told]
        fits = all(len(value.text) <= SHORT and not value.cut for value in values)
        return fits and len(self.changes) <= FEW and not self.more


def entry_shown(entry: Sealed) -> EntryShown:
    """The entry, within bounds."""
    changes = list(changes_in([entry]))
    told = told_beside(entry)
    action = told.get("action")
    return EntryShown(
        entry=entry,
        what=deed(entry.event, action if isinstance(action, str) else None, _kind(entry)),
        told=tuple((name, shown(value)) for name, value in told.items() if name != "action"),
        changes=tuple(
            ChangeShown(
                entity=str(change.entity),
                id=change.id,
                field=change.field,
                old=shown(change.old),
                new=shown(change.new),
            )
            for change in changes[:MOST_CHANGES]
        ),
        more=max(0, len(changes) - MOST_CHANGES),
    )


def shown(value: Json) -> Shown:
    """A value as text: a text as it is, anything else as JSON.

    >>> shown(None).text, shown("a").text, shown({"a": 1}).text
    ('∅', 'a', '{"a": 1}')
    """
    if value is None:
        return Shown(text="∅")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = len(text) - LONGEST_VALUE
    return Shown(text=text[:LONGEST_VALUE], cut=cut) if cut > 0 else Shown(text=text)


def _kind(entry: Sealed) -> str:
    return RUN if entry.subject == RUN else "plan"
