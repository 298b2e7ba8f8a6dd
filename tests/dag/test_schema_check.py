"""Schema check of workflow definitions: it gives the same results as the library `jsonschema`."""

from collections.abc import Sequence
from copy import deepcopy

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_json import any_json
from dag_builders import dags
from waybook.dag.definitions.checks import MAX_ERRORS, compile_check
from waybook.dag.definitions.definition import definition_schema, write_definition
from waybook.dag.diagnostics import Diagnostic
from waybook.dag.model import Dag

SCHEMA = definition_schema()
LIBRARY = jsonschema.Draft202012Validator(SCHEMA)
STRICT = compile_check(SCHEMA)
LENIENT = compile_check(SCHEMA, strict=False)


NUMBERS = compile_check({"type": ["integer", "null"], "minimum": 0, "maximum": 1000})
NAMES = compile_check(
    {
        "type": "object",
        "required": ["first"],
        "properties": {
            "first": {"$ref": "#/$defs/name"},
            "last": {"$ref": "#/$defs/name"},
            "kind": {"type": "string", "enum": ["river", "lake"], "x-fault": "unknown_kind"},
        },
        "$defs": {
            "name": {"type": "string", "maxLength": 5, "not": {"type": "string", "pattern": "\n"}}
        },
    }
)
LISTS = compile_check(
    {
        "type": "array",
        "minItems": 1,
        "maxItems": 1000,
        "items": {"type": ["boolean", "string"], "maxLength": 9},
        "x-fault": "empty",
    }
)


def messages_of(faults: Sequence[Diagnostic]) -> list[str]:
    return [f"{fault.at}: {fault.message}" for fault in faults]


def test_definition_schema_is_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_part_of_the_definition_schema_has_a_description() -> None:
    named = SCHEMA["$defs"]
    assert isinstance(named, dict)
    for part in (SCHEMA, *named.values()):
        assert part["description"].endswith(".")
        for name, inner in part.get("properties", {}).items():
            assert "description" in inner or "$ref" in inner, name


def test_definition_schema_forbids_unknown_properties_everywhere() -> None:
    named = SCHEMA["$defs"]
    assert isinstance(named, dict)
    objects = [part for part in (SCHEMA, *named.values()) if part["type"] == "object"]
    assert all(part["additionalProperties"] is False for part in objects)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1", "must be a whole number or null, not text"),
        (True, "must be a whole number or null, not true or false"),
        ([], "must be a whole number or null, not a list"),
        (1.5, "must be a whole number or null, not a number with a fraction"),
        (1j, "must be a whole number or null, not something else"),
        (-1, "must be between 0 and 1,000"),
        (1e300, "must be between 0 and 1,000"),
    ],
)
def test_definition_schema_check_explains_why_a_number_is_invalid(
    value: object, message: str
) -> None:
    assert messages_of(NUMBERS(value)) == [f": {message}"]


@pytest.mark.parametrize("value", [0, 1000, 7.0, None])
def test_definition_schema_check_accepts_numbers_within_the_bounds(value: object) -> None:
    assert not NUMBERS(value)


def test_definition_check_reports_missing_invalid_and_unknown_properties() -> None:
    value = {"LAST": 1, "last": "a long one", "kind": "lakes", "x" * 100: 1, 7: 1}
    assert messages_of(NAMES(value)) == [
        ": 'first' is missing",
        ".last: has 10 characters; at most 5 are allowed",
        ".kind: 'lakes' is not one of river, lake; did you mean 'lake'?",
        ": there is no property 'LAST' here; did you mean 'last'?",
        f": there is no property '{'x' * 60}…' here",
        ": there is no property a whole number here",
    ]


def test_definition_schema_check_reports_each_invalid_list_item() -> None:
    assert messages_of(LISTS([True, 1, "x", None])) == [
        "[1]: must be true or false or text, not a whole number",
        "[3]: must be true or false or text, not null",
    ]


def test_definition_schema_check_stops_early_at_many_errors() -> None:
    assert messages_of(LISTS([1] * 1001)) == [": must have at most 1,000 items, not 1,001"]
    assert len(LISTS([1] * 1000)) == MAX_ERRORS + 1
    assert len(NAMES({"first": "a", **{f"x{n}": n for n in range(1000)}})) == MAX_ERRORS


JSON = any_json("slug", "stages", "recipe", "x")
#: Values that are valid for some fields of a definition, and invalid for others.
NEAR: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 7.0, 2**31, "", "a", "PLAN", "per_model", "\x1f", "\0", [], {}, ["a", "b"]]
)


@given(value=JSON)
def test_schema_check_agrees_with_jsonschema_on_arbitrary_values(value: object) -> None:
    assert (not STRICT(value)) == LIBRARY.is_valid(value)


@given(data=st.data(), dag=dags(max_stages=2, max_steps=3), value=NEAR | JSON)
def test_schema_check_agrees_with_jsonschema_on_changed_definitions(
    data: st.DataObject, dag: Dag, value: object
) -> None:
    changed = deepcopy(write_definition(dag))
    here: object = changed
    while isinstance(here, dict | list) and here:
        places = list(here) if isinstance(here, dict) else list(range(len(here)))
        place = data.draw(st.sampled_from(places))
        if data.draw(st.integers(0, 3)) == 0 or not isinstance(here[place], dict | list):
            here[place] = value
            break
        here = here[place]
    faults = STRICT(changed)
    assert (not faults) == LIBRARY.is_valid(changed)
    assert len(LENIENT(changed)) <= len(faults)
