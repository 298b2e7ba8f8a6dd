"""Requests to the API that the tests repeat without schemathesis.

They come from a HAR file that schemathesis writes.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path[:0] = [
    str(Path(__file__).parents[2] / "tests"),
    str(Path(__file__).parents[2] / "tests" / "support"),
]

from fuzz.api_corpus import (  # noqa: E402 - the path is set above
    RecordedRequest,
    recorded_requests,
    save_requests,
)


def add_to_corpus(har: Path, paths: list[str], known_ids: Mapping[str, str]) -> None:
    """Add requests from a HAR file to the kept requests.

    The number of kept requests for each route and status is limited. Requests that caused a server
    error have priority, then requests that were kept before, then new ones.
    """
    requests = [*_read(json.loads(har.read_text("utf-8")), paths, known_ids)]
    failed = [request for request in requests if request.status >= 500]
    save_requests([*failed, *recorded_requests(), *requests])
    sys.stdout.write(f"{len(recorded_requests())} requests in the corpus\n")


def _read(har: Any, paths: list[str], known_ids: Mapping[str, str]) -> Iterator[RecordedRequest]:  # noqa: ANN401 - it is JSON
    for entry in har["log"]["entries"]:
        request, parts = entry["request"], urlsplit(entry["request"]["url"])
        address = f"{parts.path}?{parts.query}" if parts.query else parts.path
        for name, identity in known_ids.items():
            address = address.replace(identity, f"{{{name}}}")
        for path in paths:
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]*", path), parts.path):
                body = request.get("postData", {}).get("text")
                yield RecordedRequest(
                    path, request["method"].lower(), address, body, entry["response"]["status"]
                )
