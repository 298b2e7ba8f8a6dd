"""Fuzz targets, which check what must be true for any input.

A target takes bytes, and raises an exception if the check fails. `make harness NAME=fuzz` searches
for bytes that fail, and `test_corpus` runs the kept inputs again.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import orjson
from mcp_types import ErrorData

from report_invariants import check
from waybook.app.request.arguments import parse_arguments
from waybook.app.tools.plans.submit import SubmitStepResult
from waybook.conditions.condition import compile_condition
from waybook.conditions.values import BUDGET, Json
from waybook.core.hidden_characters import (
    contains_hidden,
    count_hidden,
    escape_hidden,
    hidden_by_field,
    may_contain_hidden,
)
from waybook.dag.definitions.definition import read_definition
from waybook.dag.definitions.source_text import parse_definition
from waybook.dag.snapshots.snapshot import map_from_snapshot, report_from_snapshot
from waybook.errors import BadExpression, WaybookError
from waybook.transport.http.app import read_snapshot
from waybook.transport.jsonrpc import read_message

#: Maximum cost of an evaluation beyond its budget. The cost of an operation is known only after the
#: operation, so the last operation can exceed the budget.
BEYOND = 200_000
VALUES: Mapping[str, Json] = {
    "result": {"a": [1, 2.5, "x", None, {"b": True}], "s": "text", "n": -1},
    "confidence": 0.5,
    "report": None,
    "step": {"order": 1, "type": "search", "attempt": 1},
    "plan": {"done": 1, "total": 3, "failed": 0},
}


def condition(data: bytes) -> None:
    """Fuzz the lexer, the parser, the checker and the evaluator of conditions."""
    text = data.decode("utf-8", "replace")
    try:
        compiled = compile_condition(text)
    except BadExpression:
        return
    outcome = compiled.evaluate(VALUES)
    assert outcome.cost <= BUDGET + BEYOND
    assert not (outcome.fired and outcome.error)


def definition(data: bytes) -> None:
    """Fuzz the parser of workflow definitions in YAML or JSON."""
    with suppress(WaybookError):
        read_definition(parse_definition(data.decode("utf-8", "replace")))


def message(data: bytes) -> None:
    """Fuzz the parsing of a JSON-RPC message and of its arguments."""
    read = read_message(data)
    if isinstance(read, ErrorData):
        return
    params = read.get("params", {})
    assert isinstance(params, Mapping)
    arguments = params.get("arguments", params)
    with suppress(WaybookError):
        parse_arguments(
            SubmitStepResult, arguments if isinstance(arguments, dict) else {"a": arguments}
        )


def snapshot(data: bytes) -> None:
    """Fuzz the import of snapshots from other systems."""
    try:
        value = read_snapshot(data)
        report = report_from_snapshot(value)
    except WaybookError:
        return
    assert [*check(report)] == []
    with suppress(WaybookError):
        map_from_snapshot(value)


def text(data: bytes) -> None:
    """Fuzz the detection of hidden characters."""
    decoded_text = data.decode("utf-8", "replace")
    counts = count_hidden(decoded_text)
    shown = escape_hidden(decoded_text)
    assert shown.count("⟦U+") - decoded_text.count("⟦U+") == sum(counts.values())
    assert not count_hidden(shown).keys() & {"control", "bidi", "tag", "annotation"}
    if counts:
        assert contains_hidden(decoded_text)
        assert may_contain_hidden(orjson.dumps([decoded_text]))
        assert hidden_by_field({"a": decoded_text}) == {"a": counts}


TARGETS: Mapping[str, Callable[[bytes], None]] = MappingProxyType(
    {one.__name__: one for one in (condition, definition, message, snapshot, text)}
)
