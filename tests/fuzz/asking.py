"""Requests that schemathesis made under /api, kept for repetition: some of each kind of answer.

Ids of existing things are written as their names in braces: `{planId}`.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ASKED = Path(__file__).parent / "asked.json"
#: Maximum number kept for each route and status, and the maximum length of each.
MOST_OF_A_KIND = 8
LONGEST_ASKED = 1_000


class Asked(NamedTuple):
    """A request, and the status of its answer when it was kept."""

    path: str
    method: str
    address: str
    body: str | None
    status: int


def asked_before() -> list[Asked]:
    """Return the kept requests."""
    return [Asked(*one) for one in json.loads(ASKED.read_text("utf-8"))]


def ask_again(found: Iterable[Asked]) -> None:
    """Keep the first of these of each kind, without duplicates."""
    kept: list[Asked] = []
    kinds: Counter[tuple[str, str, int]] = Counter()
    for one in dict.fromkeys(found):
        kind = one.path, one.method, one.status
        if kinds[kind] < MOST_OF_A_KIND and len(one.address + (one.body or "")) <= LONGEST_ASKED:
            kinds[kind] += 1
            kept.append(one)
    lines = ",\n".join(json.dumps(one) for one in sorted(kept, key=lambda one: one[:2]))
    ASKED.write_text(f"[\n{lines}\n]\n", "utf-8")
