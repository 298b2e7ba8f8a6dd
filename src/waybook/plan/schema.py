"""Validates values, mainly step results, against JSON Schemas, with a limit on the work.

Keywords such as references and regular expressions are not supported, because they can make
validation arbitrarily expensive.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import jsonschema
from jsonschema import Draft202012Validator

from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import Json
from waybook.plan.model import MAX_CONDITION_DEPTH, NewCondition, NewStep
from waybook.plan.new_conditions import check_size

#: Keywords that can make validation arbitrarily expensive or ambiguous.
UNSUPPORTED_KEYWORDS = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "$id",
        "$schema",
        "pattern",
        "patternProperties",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
#: Schema keywords whose value is an object with names that the author of the schema chooses.
_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})

SchemaError: TypeAlias = dict[str, Json]

MAX_DEPTH = 64
_MAX_COST = 100_000
MAX_NODES = 2_000
MAX_ERRORS = 20
_MAX_MESSAGE = 300
#: Each value inside a JSON value counts as one part. A text, or the keys of an object, count as one
#: more part per this many characters.
_CHARACTERS_PER_PART = 100


def check_schemas(schemas: Iterable[Json]) -> None:
    """Check that the schemas in a call are valid and, all together, not too large.

    Raises:
        InvalidInput: a schema is not a JSON Schema, or uses an unsupported keyword.
        TooLarge: the schemas together have too many parts, or one is nested too deeply.
    """
    parts = 0
    for schema in schemas:
        if schema is not None:
            parts += _weight(schema, "resultSchema")
            if parts > MAX_NODES:
                raise TooLarge(
                    f"resultSchema: the schemas of one call have more than {MAX_NODES:,} names and "
                    "values; simplify them",
                    limit=MAX_NODES,
                )
            check_schema(schema)


def check_schema(schema: Json, argument: str = "resultSchema") -> None:
    """Check that a schema is valid and uses only supported keywords.

    Raises:
        InvalidInput: the value is not a JSON Schema, or uses an unsupported keyword.
        TooLarge: the schema has too many parts, or is nested too deeply.
    """
    if schema is None:
        return
    if not isinstance(schema, dict):
        raise InvalidInput(f"{argument} must be a JSON Schema object", argument=argument)
    if _weight(schema, argument) > MAX_NODES:
        raise TooLarge(f"{argument} has over {MAX_NODES:,} names and values", limit=MAX_NODES)
    used = sorted(UNSUPPORTED_KEYWORDS.intersection(_keywords(schema)))
    if used:
        raise InvalidInput(
            f"{argument} uses {', '.join(used)}: references, nested dialects, regular "
            "expressions, unevaluated… and uniqueItems are not supported here",
            argument=argument,
            keywords=used,
        )
    try:
        Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise InvalidInput(
            f"{argument} is not a JSON Schema: {error.message[:_MAX_MESSAGE]}",
            argument=argument,
            at=error.json_path[:_MAX_MESSAGE],
        ) from error


def check_result(schema: Json, result: Json) -> None:
    """Check a result against the step's schema.

    Raises:
        InvalidInput: the result violates the schema; the error lists the missing and invalid parts.
        TooLarge: checking the result would take too long.
    """
    faults = result_errors(schema, result)
    if faults:
        raise InvalidInput(
            summarize_errors(faults),
            argument="resultSummary",
            missing=[*faults],
            resultSchema=schema,
        )


def summarize_errors(faults: list[SchemaError]) -> str:
    more = f" (and {len(faults) - 1} more)" if faults[1:] else ""
    first = faults[0]
    return (
        f"the result does not match the step's resultSchema: {first['at']}: {first['fault']}{more}"
    )


def result_errors(schema: Json, result: Json) -> list[SchemaError]:
    if schema is None:
        return []
    errors = mismatches(result, schema, value="resultSummary", shape="resultSchema")
    return [
        {"at": fault.path.replace("$", "resultSummary", 1), "fault": fault.message}
        for fault in errors
    ]


class Mismatch(NamedTuple):
    """A place in a value that violates the schema, and what is wrong. `$` is the root."""

    path: str
    message: str


def mismatches(instance: Json, schema: Json, *, value: str, shape: str) -> list[Mismatch]:
    """Return the first few places where a value violates a schema.

    `value` and `shape` are the names of the value and the schema in error messages.

    Raises:
        TooLarge: checking the value would take too long.
    """
    if _weight(schema, shape) * _weight(instance, value) > _MAX_COST:
        raise TooLarge(
            f"{value} is too large to be checked against {shape}; make it smaller", argument=value
        )
    faults: list[Mismatch] = []
    checking: Any = schema
    try:
        for error in Draft202012Validator(checking).iter_errors(instance):
            faults.append(Mismatch(error.json_path[:_MAX_MESSAGE], error.message[:_MAX_MESSAGE]))
            if len(faults) == MAX_ERRORS:
                break
    # The keyword `multipleOf` raises this for a number that is too large for a float.
    except ArithmeticError as error:
        faults.append(Mismatch("$", f"it contains a number that cannot be checked: {error}"))
    return sorted(faults, key=lambda fault: fault.path)


def _keywords(schema: dict[str, Json]) -> Iterator[str]:
    waiting: list[Json] = [{key: value for key, value in schema.items() if key != "$schema"}]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            waiting += here
        elif isinstance(here, dict):
            yield from here
            for keyword, inner in here.items():
                if keyword in _NAMED_SCHEMAS and isinstance(inner, dict):
                    waiting += inner.values()
                elif keyword not in _DATA_KEYWORDS:
                    waiting.append(inner)


def _weight(value: Json, argument: str) -> int:
    """Return the number of parts in a JSON value. A long text counts as several parts."""
    weight = 0
    level: list[Json] = [value]
    for _ in range(MAX_DEPTH):
        inside: list[Json] = []
        for item in level:
            characters = 0
            if isinstance(item, dict):
                characters = sum(map(len, item))
                inside += item.values()
            elif isinstance(item, list):
                inside += item
            elif isinstance(item, str):
                characters = len(item)
            weight += 1 + characters // _CHARACTERS_PER_PART
        level = inside
        if not level:
            return weight
    raise TooLarge(
        f"{argument} is nested more than {MAX_DEPTH} levels deep",
        argument=argument,
        limit=MAX_DEPTH,
    )


def check_new_steps(
    steps: Sequence[NewStep], conditions: Sequence[NewCondition] = (), *, existing: int = 0
) -> None:
    """Check the sizes and schemas of new steps, and of all steps that their conditions may add.

    `existing` is the number of conditions that the plan has already.

    Raises:
        InvalidInput: a part is malformed.
        TooLarge: a size limit of plans is exceeded, or conditions are nested too deeply.
    """
    nested = [*_nested_conditions(steps, conditions)]
    check_size(len(steps), existing + len(nested))
    for condition in nested:
        check_size(len(condition.steps))
    branched = (step for condition in nested for step in condition.steps)
    check_schemas(step.result_schema for step in (*steps, *branched))


def _nested_conditions(
    steps: Iterable[NewStep], conditions: Iterable[NewCondition]
) -> Iterator[NewCondition]:
    level = [*conditions, *(condition for step in steps for condition in step.conditions)]
    for _ in range(MAX_CONDITION_DEPTH):
        yield from level
        level = [inner for outer in level for step in outer.steps for inner in step.conditions]
    if level:
        raise TooLarge(
            f"conditions of added steps are nested more than {MAX_CONDITION_DEPTH} levels deep",
            limit=MAX_CONDITION_DEPTH,
        )
