"""Documentation page about conditions: every example evaluates as documented."""

import json
import re

import pytest

from project.repository import code_blocks, read
from waybook.conditions.condition import compile_condition
from waybook.errors import BadExpression

PAGE = read("reference", "conditions.md")
EXAMPLE = re.compile(r"^(.+?) +=> (\w+)(?:: (.+))?$")
VALUES = json.loads(code_blocks(PAGE, "json")[0])
LINES = [line for block in code_blocks(PAGE, "text") for line in block.splitlines() if line]


def outcome(expression: str) -> tuple[str, str]:
    """Return an expression's outcome as the documentation page writes it, and its error message."""
    try:
        condition = compile_condition(expression)
    except BadExpression as refused:
        return "refused", refused.message
    seen = condition.evaluate(VALUES)
    return ("error", seen.error) if seen.error else (str(seen.fired).lower(), "")


@pytest.mark.parametrize("line", LINES)
def test_conditions_page_example_has_documented_outcome(line: str) -> None:
    matched = EXAMPLE.match(line)
    assert matched is not None, "not of the form: EXPRESSION => OUTCOME"
    expression, expected, words = matched.groups()
    actual, message = outcome(expression)
    assert actual == expected, message
    assert (words or "") in message


def test_conditions_page_has_more_than_thirty_examples() -> None:
    assert len(LINES) > 30
