"""Workflow definitions written as YAML or JSON: valid, invalid and hostile texts."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from any_json import any_json
from dag_builders import dags
from waybook.dag.definitions.definition import read_definition, write_definition
from waybook.dag.definitions.source_text import MAX_BYTES, MAX_DEPTH, MAX_PARTS, parse_definition
from waybook.dag.model import Dag
from waybook.errors import BadRecipe

RIVERS = """
# Where a river begins.
slug: rivers
stages:
- slug: source
  recipe:
    steps:
    - stepKey: look          # no quotes needed
      jobType: EXECUTE
      granularityStrategy: per_model
      parallelGroup: 2
      skip: false
      prompt: |
        Look for the spring.
        Note the date: 2030-01-01.
      outputs: [{documentKey: notes}]
    edges: []
"""

LAUGHS = "a0: &a0 [ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def refused(text: str) -> tuple[object, object]:
    with pytest.raises(BadRecipe) as refusal:
        parse_definition(text)
    assert len(str(refusal.value.as_json())) < 2_000
    return refusal.value.details["fault"], refusal.value.details["at"]


def test_definition_parser_reads_handwritten_yaml() -> None:
    (stage,) = read_definition(parse_definition(RIVERS)).stages
    (step,) = stage.recipe.steps
    assert (step.key, step.parallel_group, step.skip) == ("look", 2, False)
    assert step.prompt == "Look for the spring.\nNote the date: 2030-01-01.\n"
    assert [output.document_key for output in step.outputs] == ["notes"]


@given(dag=dags(max_stages=2, max_steps=4))
def test_definition_parser_reads_the_same_value_from_json_and_yaml(dag: Dag) -> None:
    written = write_definition(dag)
    assert parse_definition(json.dumps(written)) == written
    assert parse_definition(yaml.safe_dump(written)) == written
    assert parse_definition(yaml.safe_dump(written, default_flow_style=True)) == written


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("~", None),
        ("{a: , b: ~, c: Null, d: ''}", {"a": None, "b": None, "c": None, "d": ""}),
        ("[true, False, yes, on, 'true']", [True, False, "yes", "on", "true"]),
        ("[1, -2, +3, 007, '4', 0x10]", [1, -2, 3, 7, "4", "0x10"]),
        ("[1.5, .5, 1e3, 1., .inf, .nan]", [1.5, 0.5, 1000.0, 1.0, ".inf", ".nan"]),
        ("[2030-01-01, 12:30, 1_000]", ["2030-01-01", "12:30", "1_000"]),
        (f"[{'9' * 5000}, 1{'0' * 400}.5]", [float("inf")] * 2),
        ("{1: a, true: b, ~: c}", {"1": "a", "true": "b", "~": "c"}),
        ("!!str 12", "12"),
        ("%YAML 1.2\n---\na: b", {"a": "b"}),
        ("\ufeffa: b", {"a": "b"}),
        ('\ufeff{"a": "b"}', {"a": "b"}),
        ('{"a": "b",}', {"a": "b"}),
        ('{"a": NaN}', {"a": "NaN"}),
        ('{"a":\t"\\/\\u00e9"}', {"a": "/é"}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_definition_parser_reads_every_kind_of_yaml_value(text: str, value: object) -> None:
    assert parse_definition(text) == value


def test_definition_parser_replaces_yaml_alias_with_the_aliased_value() -> None:
    text = "one: &x {a: [1]}\ntwo: *x\nthree: [*x, *x]\n"
    assert parse_definition(text) == {
        "one": {"a": [1]},
        "two": {"a": [1]},
        "three": [{"a": [1]}] * 2,
    }


@pytest.mark.parametrize(
    ("text", "fault", "at"),
    [
        ("a: b\nc: ]", "bad_text", "line 2, column 4"),
        ("a: b\n\tc: d", "bad_text", "line 2, column 1"),
        ('{"a": 1\n"b": 2}', "bad_text", "line 2, column 4"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "duplicate_property", "line 4, column 3"),
        ('{"a": 1,\n "b": 2, "a": 3}', "duplicate_property", "line 2, column 10"),
        ("a: 1\n'a': 2", "duplicate_property", "line 2, column 1"),
        ("a: 1\n---\nb: 2", "bad_text", "line 2, column 1"),
        ("a: *x", "bad_text", "line 1, column 4"),
        ("&x [*x]", "bad_text", "line 1, column 5"),
        ("? [a]\n: b", "bad_text", "line 1, column 3"),
        ("a: &x b\n*x : c", "bad_text", "line 2, column 1"),
        ("a: !!python/object/apply:os.system [ls]", "bad_text", "line 1, column 4"),
        ("a: !env HOME", "bad_text", "line 1, column 4"),
        ("a: !!timestamp 2030-01-01", "bad_text", "line 1, column 4"),
        ("a: b\nc: \x1b[31m", "bad_text", "line 2, column 4"),
        ("é\ud800", "bad_text", "line 1, column 2"),
        ("%TAG ! x:\n---\na", "bad_text", "line 1, column 1"),
        ("[" * 500_000, "too_deep", f"line 1, column {MAX_DEPTH + 1}"),
        ("{a: " * 100_000, "too_deep", f"line 1, column {4 * MAX_DEPTH + 1}"),
        ("- " * 500_000, "too_deep", f"line 1, column {2 * MAX_DEPTH + 1}"),
        ("? " * 500_000, "bad_text", "line 1, column 3"),
        ("[" * 40 + "]" * 40, "too_deep", f"line 1, column {MAX_DEPTH + 1}"),
        ("x" * (MAX_BYTES + 1), "too_large", "line 1, column 1"),
        ("é" * (MAX_BYTES // 2 + 1), "too_large", "line 1, column 1"),
        ("- a\n" * (MAX_PARTS + 1), "too_large", f"line {MAX_PARTS}, column 3"),
        (LAUGHS, "too_large", "line 7, column 15"),
        ("".join(f"%TAG !a{n}! x\n" for n in range(60_000)), "bad_text", "line 1, column 1"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_definition_parser_refuses_invalid_text_with_line_and_column(
    text: str, fault: str, at: str
) -> None:
    assert refused(text) == (fault, at)


def test_definition_parser_accepts_nesting_up_to_the_maximum_depth() -> None:
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert json.dumps(parse_definition(deep)) == deep
    assert json.dumps(parse_definition(f"# not JSON\n{deep}")) == deep


JSON = any_json(
    scalars=st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=10)
)


@given(value=JSON)
def test_definition_parser_returns_any_json_value_unchanged(value: object) -> None:
    assert parse_definition(json.dumps([value])) == [value]
    assert parse_definition(json.dumps([value], ensure_ascii=False)) == [value]


@given(value=JSON)
def test_definition_parser_reads_json_written_as_yaml_unchanged(value: object) -> None:
    assert parse_definition(yaml.safe_dump([value])) == [value]


PIECES = st.sampled_from(
    [*"a1[]{},|>'#%~é\n\t\\\0\ud800", '"', ": ", "- ", "? ", "&x ", "*x", "!t ", "---", "\n  "]
)


@settings(max_examples=100)
@given(text=st.lists(PIECES, max_size=25).map("".join) | st.text())
def test_definition_parser_raises_only_bad_recipe_for_any_text(text: str) -> None:
    try:
        parse_definition(text)
    except BadRecipe as refusal:
        assert str(refusal.details["at"]).startswith("line ")  # noqa: PT017 - both ways are fine
