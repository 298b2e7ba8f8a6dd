"""Requests to `/api` that schemathesis generated, kept as regression tests.

For each route and status, a few requests are kept, with placeholders such as `{planId}` for the ids
of existing objects.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

CORPUS_FILE = Path(__file__).parent / "api_corpus.json"
#: Maximum number of requests for each route and status, and maximum length of a request.
MAX_PER_ROUTE_AND_STATUS = 8
MAX_REQUEST_LENGTH = 1_000


class RecordedRequest(NamedTuple):
    """Saved HTTP request, with the status of its answer."""

    path: str
    method: str
    address: str
    body: str | None
    status: int


def recorded_requests() -> list[RecordedRequest]:
    return [RecordedRequest(*row) for row in json.loads(CORPUS_FILE.read_text("utf-8"))]


def save_requests(requests: Iterable[RecordedRequest]) -> None:
    """Save the first requests for each path, method and status, without duplicates."""
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
