"""Results of agents: the instruction for the marked block, and reading what came back."""

import json
import secrets
from typing import Any, Final

from waybook.errors import TooLarge
from waybook.json_values import Json, children, parse_content, refuse_constant
from waybook.plan.schema import mismatches
from waybook.work.adapters import Adapter

MAX_FAULTS: Final = 5


class ResultBlock:
    """Marked block of JSON in an agent's last message.

    The marker has a nonce that only this task's prompt contains. A block in a file or a web page
    that the agent repeats has another one, or none.
    """

    def __init__(self, schema: Json) -> None:
        nonce = secrets.token_hex(8)
        self._begin, self._end = f"BEGIN RESULT {nonce}", f"END RESULT {nonce}"
        self._schema = schema

    @property
    def instruction(self) -> str:
        """Return the text that is appended to the prompt."""
        if self._schema is None:
            return ""
        return (
            "\n\n## Result\n\n"
            "When the work is done, end your last message with the result: a line that is exactly "
            f"`{self._begin}`, then one JSON value that matches the JSON Schema below, then a line "
            f"that is exactly `{self._end}`. Write both lines without the backticks.\n\n"
            f"JSON Schema: {json.dumps(self._schema, ensure_ascii=False)}\n"
        )

    def split(self, text: str) -> tuple[Json, str]:
        """Return the JSON in the last marked block, or None, and the text without the blocks."""
        value: Json = None
        outside: list[str] = []
        block: list[str] | None = None
        for line in text.splitlines():
            if line.strip() == self._begin:
                block = []
            elif block is None:
                outside.append(line)
            elif line.strip() == self._end:
                value, block = parse_json("\n".join(block)), None
            else:
                block.append(line)
        return value, "\n".join(outside).strip()

    def fault(self, result: Json) -> str:
        """Return what is wrong with a result; an empty text if it matches the schema."""
        if result is None:
            return f"there is no JSON between the lines {self._begin} and {self._end}"
        try:
            wrong = mismatches(result, self._schema, value="the result", shape="the schema")
        except TooLarge as error:
            return error.message
        return "; ".join(f"{fault.path}: {fault.message}" for fault in wrong[:MAX_FAULTS])


def parse_json(text: str) -> Json:
    """Return the JSON value in a text or in its code fence, or None without one."""
    value = parse_content(text.strip())
    if not isinstance(value, str):
        return value
    try:
        number: Json = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return number


def native_schema(adapter: Adapter, schema: Json) -> bool:
    """Return whether the agent itself can enforce the schema."""
    if not adapter.takes("schema") or not isinstance(schema, dict):
        return False
    if adapter.schema_dialect == "strict":
        return _is_strict(schema)
    return schema.get("type") == "object"


def _is_strict(schema: Any) -> bool:  # noqa: ANN401 - any part of a JSON Schema
    """Return whether every object lists all properties as required, and forbids others."""
    if isinstance(schema, dict) and (schema.get("type") == "object" or "properties" in schema):
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or set(schema.get("required", [])) != set(schema.get("properties", [])):
            return False
    return all(map(_is_strict, children(schema)))
