"""An audit entry as people read it: who did what, and what was changed from what to what."""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from waybook.record.moment import Json
from waybook.store.audit import SealedEntry
from waybook.usecases.audit_trail import changes_in, entry_details
from waybook.usecases.deeds import event_label
from waybook.usecases.verify_audit import RUN

#: So many changes of one entry stand on the page, and so much of each value.
MAX_CHANGES: Final = 30
MAX_VALUE_LENGTH: Final = 600
#: A value is short if it fits on a line; an entry with few short ones is open.
SHORT_VALUE_LENGTH: Final = 80
MAX_INLINE_CHANGES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayValue:
    """A value, cut where it is too long for a page."""

    text: str
    #: How many characters were left out.
    omitted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeView:
    entity: str
    id: str
    field: str
    old: DisplayValue
    new: DisplayValue


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryView:
    entry: SealedEntry
    what: str
    #: What it says beside its changes.
    details: tuple[tuple[str, DisplayValue], ...]
    changes: tuple[ChangeView, ...]
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
        values = [v for c in self.changes for v in (c.old, c.new)] + [v for _, v in self.details]
        fits = all(len(value.text) <= SHORT_VALUE_LENGTH and not value.omitted for value in values)
        return fits and len(self.changes) <= MAX_INLINE_CHANGES and not self.more


def entry_view(entry: SealedEntry) -> EntryView:
    """The entry, within bounds."""
    changes = list(changes_in([entry]))
    told = entry_details(entry)
    action = told.get("action")
    return EntryView(
        entry=entry,
        what=event_label(entry.event, action if isinstance(action, str) else None, _kind(entry)),
        details=tuple(
            (name, display_value(value)) for name, value in told.items() if name != "action"
        ),
        changes=tuple(
            ChangeView(
                entity=str(change.entity),
                id=change.id,
                field=change.field,
                old=display_value(change.old),
                new=display_value(change.new),
            )
            for change in changes[:MAX_CHANGES]
        ),
        more=max(0, len(changes) - MAX_CHANGES),
    )


def display_value(value: Json) -> DisplayValue:
    """A value as text: a text as it is, anything else as JSON.

    >>> display_value(None).text, display_value("a").text, display_value({"a": 1}).text
    ('∅', 'a', '{"a": 1}')
    """
    if value is None:
        return DisplayValue(text="∅")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = len(text) - MAX_VALUE_LENGTH
    return (
        DisplayValue(text=text[:MAX_VALUE_LENGTH], omitted=cut)
        if cut > 0
        else DisplayValue(text=text)
    )


def _kind(entry: SealedEntry) -> str:
    return RUN if entry.subject == RUN else "plan"
