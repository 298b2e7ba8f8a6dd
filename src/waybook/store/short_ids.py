"""Finds full ids by short ids, and caches them and the parents of steps and jobs."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from waybook.core.short_ids import IdKind, short_id, usual_form
from waybook.store.driver.queries import Statement, load


class _ShortIdRow(NamedTuple):
    id: str
    short_key: int


class _StepIdRow(NamedTuple):
    id: str
    short_key: int
    plan_id: str


SQL = load("short_ids", **{**{str(kind): _ShortIdRow for kind in IdKind}, "step": _StepIdRow})
_QUERIES: Final = {
    IdKind.PLAN: SQL["plan"],
    IdKind.STEP: SQL["step"],
    IdKind.RUN: SQL["run"],
    IdKind.JOB: SQL["job"],
    IdKind.REVIEW: SQL["review"],
}

MAX_ENTRIES: Final = 32_768


def lookup_statement(kind: IdKind, keys: Iterable[int]) -> Statement:
    return _QUERIES[kind](keys=f"{{{','.join(map(str, keys))}}}")


class ShortIdCache:
    """Caches the full id for each short id.

    An entry never becomes outdated, because the short id is computed from the full id.
    """

    def __init__(self, most: int = MAX_ENTRIES) -> None:
        #: The org in the keys is an int, because ints hash fast.
        self._full_ids: OrderedDict[tuple[int, IdKind, str], str] = OrderedDict()
        self._most = most

    def add(self, org_id: UUID, kind: IdKind, full_id: str) -> str:
        short = short_id(full_id)
        key = org_id.int, kind, short
        if key not in self._full_ids:
            self._full_ids[key] = full_id.lower()
            if len(self._full_ids) > self._most:
                # With a plain dict, finding the first entry becomes slow after many deletions.
                self._full_ids.popitem(last=False)
        return short

    def get(self, org_id: UUID, kind: IdKind, short: str) -> str | None:
        """Return the cached full id for a short id in its usual spelling."""
        return self._full_ids.get((org_id.int, kind, short))

    def find(self, org_id: UUID, kind: IdKind, text: str) -> str | None:
        """Return the cached full id for a short id in any spelling."""
        # Try the usual spelling first, because most callers copy an id from a reply.
        org = org_id.int
        return self._full_ids.get((org, kind, text)) or self._full_ids.get(
            (org, kind, usual_form(text))
        )

    def __len__(self) -> int:
        return len(self._full_ids)


_MAX_ENTRIES = 10_000


class ParentCache:
    def __init__(self, most: int = _MAX_ENTRIES) -> None:
        self._plans: OrderedDict[tuple[int, str], str] = OrderedDict()
        self._most = most

    def put(self, org_id: UUID, step_id: str, plan_id: str) -> None:
        key = org_id.int, step_id
        self._plans[key] = plan_id
        self._plans.move_to_end(key)
        if len(self._plans) > self._most:
            self._plans.popitem(last=False)

    def get(self, org_id: UUID, step_id: str) -> str | None:
        return self._plans.get((org_id.int, step_id))
