"""The shape of every error that leaves this house, whatever the face."""

import json
from collections.abc import Mapping

from waybook.redaction import redact, redact_json


def error_body(code: str, message: str, **details: object) -> dict[str, object]:
    """An error that a face found by itself, in the doorway's shape.

    >>> error_body("TOO_LARGE", "The body is too large.", limit=1048576)["error"]["code"]
    'TOO_LARGE'
    """
    told = {"code": code, "message": redact(message), "details": redact_json(details)}
    return {"error": {**told, "next": None}}


def compact_json(body: Mapping[str, object]) -> str:
    """JSON without a blank to spare.

    >>> compact_json({"plan": "Größe", "steps": [1, 2]})
    '{"plan":"Größe","steps":[1,2]}'
    """
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
