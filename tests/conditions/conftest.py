"""Fixtures that evaluate conditions, with Waybook and with a CEL library for comparison."""

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

# mypy ignores the type stubs of this package, because it has no file `py.typed`.
from cel_expr_python import cel  # type: ignore[import-untyped]

from waybook.conditions.condition import VARIABLES, compile_condition
from waybook.conditions.values import Budget, ConditionError, Json
from waybook.errors import BadExpression

#: Function that evaluates a condition, and returns the result as a text in which 1, 1.0 and true
#: differ. The text is "error" if the evaluation fails, and "refused" if the condition does not
#: compile.
Reading: TypeAlias = Callable[[str, Mapping[str, Json]], str]


def _written(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _read_back(result: cel.Value) -> object:
    """Convert a result of the CEL library to a Python value; convert nulls without the library.

    The library does not count references to `None`, so Python would abort after some thousands of
    nulls.
    """
    if result.type() == cel.Type.NULL:
        return None
    value: object = result.value()
    if isinstance(value, list):
        return [_read_back(item) for item in value]
    if isinstance(value, dict):
        return {key: _read_back(item) for key, item in value.items()}
    return value


@pytest.fixture(scope="session")
def ours() -> Reading:
    def read(source: str, values: Mapping[str, Json]) -> str:
        try:
            condition = compile_condition(source)
        except BadExpression:
            return "refused"
        try:
            return _written(condition.program(values, Budget()))
        except ConditionError:
            return "error"

    return read


@pytest.fixture(scope="session")
def real() -> Reading:
    """Return a function that evaluates conditions with the CEL library, without type checks."""
    env = cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN))

    def read(source: str, values: Mapping[str, Json]) -> str:
        try:
            expression = env.compile(source, disable_check=True)
        except RuntimeError:
            return "refused"
        result = expression.eval(data=values)
        return "error" if result.type() == cel.Type.ERROR else _written(_read_back(result))

    return read
