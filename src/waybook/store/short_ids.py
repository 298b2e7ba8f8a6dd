"""Lookup of full ids by the keys of short ids, and a per-process cache of id pairs."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from waybook.core.short_ids import IdKind, short_id, usual_form
from waybook.store.driver.queries import Statement, load


class ShortIdRow(NamedTuple):
    """Full id of a row, and the key of its short id."""

    id: str
    short_key: int


class StepIdRow(NamedTuple):
    """Full id of a step, the key of its short id, and the id of its plan."""

    id: str
    short_key: int
    plan_id: str


SQL = load("short_ids", **{**{str(kind): ShortIdRow for kind in IdKind}, "step": StepIdRow})
QUERIES: Final = {
    IdKind.PLAN: SQL["plan"],
    IdKind.STEP: SQL["step"],
    IdKind.RUN: SQL["run"],
    IdKind.JOB: SQL["job"],
    IdKind.REVIEW: SQL["review"],
}

#: Maximum number of short ids that a process caches, for all orgs together.
MAX_ENTRIES: Final = 32_768


def lookup_statement(kind: IdKind, keys: Iterable[int]) -> Statement:
    """Select the full ids of rows of one kind whose short ids have these keys."""
    return QUERIES[kind](keys=f"{{{','.join(map(str, keys))}}}")


class ShortIdCache:
    """Cache of full ids, keyed by short id, that this process returned or looked up recently.

    A short id is derived from the full id, so an entry is never out of date. The cache does not
    show whether the plan, step or other object still exists; the call has to check this, as with a
    full id.
    """

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        """Create an empty cache that keeps the `most` ids that were added last."""
        #: Keys contain the org as a number, because numbers can be hashed fast.
        self._full_ids: OrderedDict[tuple[int, IdKind, str], str] = OrderedDict()
        self._most = most

    def add(self, org_id: UUID, kind: IdKind, full_id: str) -> str:
        """Cache a full id and return its short id."""
        short = short_id(full_id)
        key = org_id.int, kind, short
        if key not in self._full_ids:
            self._full_ids[key] = full_id.lower()
            if len(self._full_ids) > self._most:
                # A plain dict would search its first entry among all the deleted ones.
                self._full_ids.popitem(last=False)
        return short

    def get(self, org_id: UUID, kind: IdKind, short: str) -> str | None:
        """Return the full id of a short id in its usual spelling, or None if it is not cached."""
        return self._full_ids.get((org_id.int, kind, short))

    def find(self, org_id: UUID, kind: IdKind, text: str) -> str | None:
        """Return the full id of a short id in any spelling, or None if it is not cached."""
        # Most callers copy an id from a reply, which has the usual spelling.
        org = org_id.int
        return self._full_ids.get((org, kind, text)) or self._full_ids.get(
            (org, kind, usual_form(text))
        )

    def __len__(self) -> int:
        """Return the number of cached ids."""
        return len(self._full_ids)
