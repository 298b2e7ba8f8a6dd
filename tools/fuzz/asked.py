"""What schemathesis asked, read from its own record, so that it can be asked again without it."""

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

from fuzz.api_corpus import (  # noqa: E402 - the tests are found just above
    RecordedRequest,
    recorded_requests,
    replay_request,
)


def keep(record: Path, paths: list[str], known: Mapping[str, str]) -> None:
    """Keep some of what stands in the record beside what is kept already, first what broke."""
    found = [*_read(json.loads(record.read_text("utf-8")), paths, known)]
    broke = [one for one in found if one.status >= 500]
    replay_request([*broke, *recorded_requests(), *found])
    sys.stdout.write(f"{len(recorded_requests())} requests are kept, to be asked again\n")


def _read(record: Any, paths: list[str], known: Mapping[str, str]) -> Iterator[RecordedRequest]:  # noqa: ANN401 - it is JSON
    for entry in record["log"]["entries"]:
        request, parts = entry["request"], urlsplit(entry["request"]["url"])
        address = f"{parts.path}?{parts.query}" if parts.query else parts.path
        for name, identity in known.items():
            address = address.replace(identity, f"{{{name}}}")
        for path in paths:
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]*", path), parts.path):
                body = request.get("postData", {}).get("text")
                yield RecordedRequest(
                    path, request["method"].lower(), address, body, entry["response"]["status"]
                )
