"""Requests that schemathesis made under /api, saved for reuse: some of each kind of answer.

Ids of existing things are written as their names in braces: `{planId}`.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

CORPUS_FILE = Path(__file__).parent / "api_corpus.json"
#: Maximum number of requests kept for each route and status, and maximum length of a request.
MAX_PER_ROUTE_AND_STATUS = 8
MAX_REQUEST_LENGTH = 1_000


class RecordedRequest(NamedTuple):
    """A saved request, and the status of its answer when it was saved."""

    path: str
    method: str
    address: str
    body: str | None
    status: int


def recorded_requests() -> list[RecordedRequest]:
    """Return the saved requests."""
    return [RecordedRequest(*row) for row in json.loads(CORPUS_FILE.read_text("utf-8"))]


def save_requests(requests: Iterable[RecordedRequest]) -> None:
    """Save the first requests of each kind of answer, without duplicates."""
    selected: list[RecordedRequest] = []
    kinds: Counter[tuple[str, str, int]] = Counter()
    for request in dict.fromkeys(requests):
        kind = request.path, request.method, request.status
        if (
            kinds[kind] < MAX_PER_ROUTE_AND_STATUS
            and len(request.address + (request.body or "")) <= MAX_REQUEST_LENGTH
        ):
            kinds[kind] += 1
            selected.append(request)
    lines = ",\n".join(
        json.dumps(request) for request in sorted(selected, key=lambda request: request[:2])
    )
    CORPUS_FILE.write_text(f"[\n{lines}\n]\n", "utf-8")
