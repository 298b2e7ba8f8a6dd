"""Plan templates: parsing, replacing of placeholders, and the built-in templates."""

import pytest

from waybook.errors import BadRecipe, InvalidInput, NotFound
from waybook.importers.templates import (
    builtin_templates,
    fill_template,
    find_template,
    read_template,
)

TEXT = """
template: two-steps
description: Two steps.
parameters:
  topic: What it is about.
  length: {description: How long, default: short}
name: On {{topic}}
researchQuestion: "{{ topic }}, {{ length }}"
steps:
  - {stepType: search, instructions: "Search {{ topic }}."}
  - {stepType: synthesize, instructions: Write., dependsOn: [1]}
"""


def test_placeholders_inside_values_for_a_plan_template_are_not_replaced() -> None:
    arguments = fill_template(read_template(TEXT), {"topic": "{{ length }} \\1"})
    assert arguments["name"] == "On {{ length }} \\1"
    assert arguments["researchQuestion"] == "{{ length }} \\1, short"
    assert arguments["steps"][0]["instructions"] == "Search {{ length }} \\1."  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "needs: --set topic=…"),
        ({"topic": " "}, "needs: --set topic=…"),
        ({"topic": "a", "tone": "b"}, "has no parameter tone; its parameters: topic, length"),
        ({"topic": "a" * 2_001}, "more than 2000 characters"),
    ],
)
def test_plan_template_with_missing_or_unknown_values_is_refused(
    values: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        fill_template(read_template(TEXT), values)
    assert words in refusal.value.message


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("topic: What", "subject: What", "declare the placeholders as parameters: topic"),
        ("{{ length }}", "long", "remove the unused parameters: length"),
        ("two-steps", "Two Steps", "cannot name a template"),
        ("name: On", "title: On", "unknown fields: title; missing fields: name"),
        ("parameters:\n", "parameters: 3\nbudget:\n", "parameters must be a mapping"),
    ],
)
def test_plan_template_with_invalid_fields_or_parameters_is_refused(
    old: str, new: str, words: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_template(TEXT.replace(old, new))
    assert words in refusal.value.message


def test_error_for_template_with_invalid_yaml_names_the_line() -> None:
    with pytest.raises(BadRecipe, match="line 3"):
        read_template("template: a\nname: b\n\t- c: [\n")


def test_plan_template_with_a_placeholder_in_a_condition_is_refused() -> None:
    condition = 'branchingConditions: [{conditionExpression: "result == {{ topic }}"}]\n'
    with pytest.raises(InvalidInput, match="conditionExpression cannot contain placeholders"):
        read_template(TEXT + condition)


def test_built_in_plan_templates_are_code_change_incident_and_research() -> None:
    assert sorted(builtin_templates()) == ["code-change", "incident", "research-report"]


def test_error_for_an_unknown_plan_template_lists_the_existing_names() -> None:
    with pytest.raises(NotFound, match="there are: code-change, incident, research-report"):
        find_template("other", builtin_templates())
