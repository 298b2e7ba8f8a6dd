"""Remembers to which plan a step belongs and to which run a job belongs."""

from collections import OrderedDict
from typing import Final
from uuid import UUID

_MAX_ENTRIES: Final = 10_000


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
