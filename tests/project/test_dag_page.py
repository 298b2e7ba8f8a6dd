"""Pages about workflows and conditions: all names are listed, and examples are correct."""

import json
import re

import pytest
import yaml

from project.repository import code_blocks, read
from waybook.conditions.condition import compile_condition
from waybook.dag.definitions.definition import read_definition, read_graphs
from waybook.dag.expansion.inputs import Count
from waybook.dag.model import Strategy
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.dag.templates.engine import MAX_TEMPLATE_LENGTH
from waybook.dag.templates.filters import FILTERS, TESTS
from waybook.dag.templates.template import DEFAULT_DOCUMENT, SAMPLE_CONTEXTS, TemplateKind
from waybook.errors import BadExpression

PAGE = read("how-to", "write-a-dag.md")
#: Names in the first column of the tables of `write-a-dag.md`.
NAMED = {
    name
    for row in re.findall(r"^\| (.+?) \|", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)", row)
}


def test_dag_page_lists_every_strategy_filter_and_template_variable() -> None:
    names = {name for kind in TemplateKind for name in SAMPLE_CONTEXTS[kind]}
    assert {*Strategy, *FILTERS, *names} == NAMED


@pytest.mark.parametrize("test", TESTS)
def test_dag_page_documents_every_is_test_of_the_template_language(test: str) -> None:
    assert f"`is {test}`" in PAGE


@pytest.mark.parametrize("kind", TemplateKind)
def test_dag_page_documents_every_template_field(kind: TemplateKind) -> None:
    for value in SAMPLE_CONTEXTS[kind].values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict) and item is not SAMPLE_CONTEXTS[kind].get("content"):
                assert [field for field in item if f"`{field}`" not in PAGE] == []


def test_dag_page_example_definitions_are_valid() -> None:
    shown = [read_definition(yaml.safe_load(block)) for block in code_blocks(PAGE, "yaml")]
    assert [dag.slug for dag in shown] == ["two-views", "contracts"]


def test_contracts_example_of_the_dag_page_has_61_jobs() -> None:
    dag, graphs = read_graphs(yaml.safe_load(code_blocks(PAGE, "yaml")[1]))
    structure, models = valid_structure(dag, graphs), {"review": ("opus", "gpt")}
    assert structure_counts(structure, models)["review"].total_jobs == Count(None, 101)
    assert structure_counts(structure, models, {"contracts": 30})["review"].total == 61


def test_dag_page_shows_template_limit_and_default_template() -> None:
    assert f"{MAX_TEMPLATE_LENGTH:,} characters" in PAGE
    assert f"`{DEFAULT_DOCUMENT}`" in PAGE


# Tests of the page about conditions.


CONDITIONS_PAGE = read("reference", "conditions.md")
EXAMPLE = re.compile(r"^(.+?) +=> (\w+)(?:: (.+))?$")
VALUES = json.loads(code_blocks(CONDITIONS_PAGE, "json")[0])
LINES = [
    line for block in code_blocks(CONDITIONS_PAGE, "text") for line in block.splitlines() if line
]


def outcome(expression: str) -> tuple[str, str]:
    """Return the outcome of an expression in the words of the page, and the error message."""
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
