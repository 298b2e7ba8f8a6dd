"""The page about conditions: every example evaluates as documented."""

import json
import re

import pytest

from house.repository import code_blocks, read
from waybook.conditions.condition import compile_condition
from waybook.errors import BadExpression

PAGE = read("reference", "conditions.md")
EXAMPLE = re.compile(r"^(.+?) +=> (\w+)(?:: (.+))?$")
VALUES = json.loads(code_blocks(PAGE, "json")[0])
LINES = [line for block in code_blocks(PAGE, "text") for line in block.splitlines() if line]


def outcome(expression: str) -> tuple[str, str]:
    """Return the outcome of an expression in the page's terms, and its error message."""
    try:
        condition = compile_condition(expression)
    except BadExpression as refused:
        return "refused", refused.message
    seen = condition.evaluate(VALUES)
    return ("error", seen.error) if seen.error else (str(seen.fired).lower(), "")


@pytest.mark.parametrize("line", LINES)
def test_an_example_does_what_the_page_says(line: str) -> None:
    matched = EXAMPLE.match(line)
    assert matched is not None, "not of the form: EXPRESSION => OUTCOME"
    expression, expected, words = matched.groups()
    found, told = outcome(expression)
    assert found == expected, told
    assert (words or "") in told


def test_the_page_has_examples() -> None:
    assert len(LINES) > 30
