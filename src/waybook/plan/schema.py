"""The shape a step's result must have: a JSON Schema, within a bounded cost.

References and regular expressions are left out: both can make a small schema take for ever. What
is left costs at most the size of the schema times the size of the result.
"""

from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema import Draft202012Validator

from waybook.errors import InvalidInput, TooLarge
from waybook.plan.model import Json

#: Keywords whose cost nobody can foresee.
REFUSED = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "uniqueItems"}
)
MAX_COST = 300_000
MAX_NODES = 2_000
MAX_TOLD = 20


def check_schema(schema: Json) -> None:
    """Let only a JSON Schema pass that we can check at a bounded cost; null is no schema.

    Raises:
        InvalidInput: it is not a JSON Schema, or uses a keyword that is left out.
    """
    if schema is None:
        return
    if not isinstance(schema, dict):
        raise InvalidInput("resultSchema must be a JSON Schema object", argument="resultSchema")
    used = {key for key in _keys(schema) if key in REFUSED}
    if used:
        raise InvalidInput(
            f"resultSchema uses {', '.join(sorted(used))}: references, regular expressions and "
            "uniqueItems are not supported here",
            argument="resultSchema",
            keywords=sorted(used),
        )
    if _nodes(schema) > MAX_NODES:
        raise TooLarge(f"resultSchema has more than {MAX_NODES} parts", limit=MAX_NODES)
    try:
        Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as fault:
        raise InvalidInput(
            f"resultSchema is not a JSON Schema: {fault.message[:300]}",
            argument="resultSchema",
            at=fault.json_path,
        ) from fault


def check_result(schema: Json, result: Json) -> None:
    """Let only a result pass that the step's schema allows; no schema allows all.

    Raises:
        InvalidInput: with the list of what is missing or wrong.
    """
    if schema is None:
        return
    if _nodes(schema) * _nodes(result) > MAX_COST:
        raise TooLarge(
            "the result is too large to be checked against this step's resultSchema; submit a "
            "smaller summary",
            argument="resultSummary",
        )
    faults = [
        {"at": fault.json_path.replace("$", "resultSummary", 1), "fault": fault.message[:300]}
        for fault in _faults(schema, result)
    ]
    if faults:
        raise InvalidInput(
            f"the result does not have the shape this step asks for: {faults[0]['at']}: "
            f"{faults[0]['fault']}" + (f" (and {len(faults) - 1} more)" if faults[1:] else ""),
            argument="resultSummary",
            missing=faults,
            resultSchema=schema,
        )


def _faults(schema: Any, result: Json) -> list[jsonschema.ValidationError]:  # noqa: ANN401 - the library's own type
    faults: list[jsonschema.ValidationError] = []
    for fault in Draft202012Validator(schema).iter_errors(result):
        faults.append(fault)
        if len(faults) == MAX_TOLD:
            break
    return sorted(faults, key=lambda fault: fault.json_path)


def _keys(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in {"const", "enum", "default", "examples"}:
                yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _nodes(value: Json) -> int:
    if isinstance(value, dict):
        return 1 + sum(_nodes(inner) for inner in value.values())
    if isinstance(value, list):
        return 1 + sum(_nodes(inner) for inner in value)
    return 1
