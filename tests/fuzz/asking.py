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
    return [Asked(*row) for row in json.loads(ASKED.read_text("utf-8"))]


def ask_again(requests: Iterable[Asked]) -> None:
    """Keep the first of these of each kind, without duplicates."""
    selected: list[Asked] = []
    kinds: Counter[tuple[str, str, int]] = Counter()
    for request in dict.fromkeys(requests):
        kind = request.path, request.method, request.status
        if (
            kinds[kind] < MOST_OF_A_KIND
            and len(request.address + (request.body or "")) <= LONGEST_ASKED
        ):
            kinds[kind] += 1
            selected.append(request)
    lines = ",\n".join(
        json.dumps(request) for request in sorted(selected, key=lambda request: request[:2])
    )
    ASKED.write_text(f"[\n{lines}\n]\n", "utf-8")
