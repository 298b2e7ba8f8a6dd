"""The guide to writing a DAG covers every field of definitions and templates."""

import re

import pytest
import yaml

from project.repository import code_blocks, read
from waybook.dag.definitions.definition import read_definition, read_graphs
from waybook.dag.expansion.counts import Count
from waybook.dag.model import Strategy
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.dag.templates.engine import FILTERS, MAX_TEMPLATE_LENGTH, TESTS
from waybook.dag.templates.template import DEFAULT_DOCUMENT, SAMPLE_CONTEXTS, TemplateKind

PAGE = read("how-to", "write-a-dag.md")
#: Names in code spans in the first cell of each table row of the page.
NAMED = {
    name
    for row in re.findall(r"^\| (.+?) \|", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)", row)
}


def test_dag_page_names_every_strategy_filter_and_template_variable() -> None:
    names = {name for kind in TemplateKind for name in SAMPLE_CONTEXTS[kind]}
    assert {*Strategy, *FILTERS, *names} == NAMED


@pytest.mark.parametrize("test", TESTS)
def test_dag_page_documents_every_type_test_of_templates(test: str) -> None:
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
