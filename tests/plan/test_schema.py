import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_json import EXACT_SCALARS, any_json
from waybook.errors import InvalidInput, TooLarge, WaybookError
from waybook.json_values import Json
from waybook.plan.schema import (
    MAX_DEPTH,
    MAX_ERRORS,
    MAX_NODES,
    UNSUPPORTED_KEYWORDS,
    check_result,
    check_schema,
    check_schemas,
)

PEOPLE: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def nested(levels: int, keyword: str) -> Json:
    value: Json = {}
    for _ in range(levels):
        value = {keyword: value}
    return value


def test_result_without_schema_may_be_any_value() -> None:
    check_schema(None)
    check_result(None, {"anything": [1, 2, 3]})


def test_valid_result_schemas_are_accepted() -> None:
    check_schemas([PEOPLE, None, {}])


@pytest.mark.parametrize("schema", [True, "object", [], 3])
def test_result_schema_that_is_not_an_object_is_refused(schema: Json) -> None:
    with pytest.raises(InvalidInput, match="object"):
        check_schema(schema)


def test_invalid_result_schema_is_refused_with_the_location() -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_schema({"properties": {"a": {"type": "nonsense"}}})
    assert refusal.value.details["at"] == "$.properties.a.type"


#: JSON Schema keywords that may need unlimited time, to compare with `UNSUPPORTED_KEYWORDS`.
OF_UNKNOWN_COST = {
    *("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "pattern", "patternProperties"),
    *("unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
}


def test_schema_keywords_of_unlimited_cost_are_not_supported() -> None:
    assert UNSUPPORTED_KEYWORDS == OF_UNKNOWN_COST


@pytest.mark.parametrize("keyword", sorted(OF_UNKNOWN_COST - {"$schema"}))
def test_result_schema_with_an_unsupported_keyword_is_refused(keyword: str) -> None:
    schemas: list[Json] = [
        {keyword: "x"},
        {"properties": {"a": {keyword: "x"}}},
        {"allOf": [{"not": {keyword: "x"}}]},
    ]
    for schema in schemas:
        with pytest.raises(InvalidInput) as refusal:
            check_schema(schema)
        assert refusal.value.details["keywords"] == [keyword]


def test_result_schema_that_changes_dialect_in_a_subschema_is_refused() -> None:
    with pytest.raises(InvalidInput, match="dialects"):
        check_schema({"items": {"$schema": "http://json-schema.org/draft-03/schema#"}})


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"pattern": {"type": "string"}, "$ref": {"type": "string"}}},
        {"const": {"pattern": "(a+)+"}},
        {"enum": [{"$ref": "#"}]},
        {"default": {"uniqueItems": True}},
    ],
)
def test_result_schema_may_use_unsupported_keywords_as_names_or_values(schema: Json) -> None:
    check_schema(schema)


def test_result_schema_or_set_of_schemas_that_is_too_large_is_refused() -> None:
    wide: Json = {"properties": {f"p{n}": {} for n in range(MAX_NODES)}}
    with pytest.raises(TooLarge):
        check_schema(wide)
    half: Json = {"enum": list(range(MAX_NODES // 2))}
    check_schema(half)
    with pytest.raises(TooLarge):
        check_schemas([half, half])


@pytest.mark.parametrize("levels", [MAX_DEPTH, 50_000])
@pytest.mark.parametrize("keyword", ["not", "items", "const", "properties"])
def test_result_schema_nested_too_deeply_is_refused(keyword: str, levels: int) -> None:
    with pytest.raises(TooLarge):
        check_schema(nested(levels, keyword))


@pytest.mark.parametrize("keyword", ["not", "items", "const"])
def test_result_schema_nested_to_the_maximum_depth_is_accepted(keyword: str) -> None:
    check_schema(nested(MAX_DEPTH - 1, keyword))


def test_result_nested_to_the_maximum_depth_is_accepted() -> None:
    result: Json = []
    for _ in range(MAX_DEPTH - 2):
        result = [result]
    check_result(nested(MAX_DEPTH - 1, "items"), result)


def test_error_for_a_result_lists_the_violations_of_the_schema() -> None:
    with pytest.raises(InvalidInput, match=r"and 1 more") as refusal:
        check_result(PEOPLE, {"age": -1})
    assert refusal.value.details["missing"] == [
        {"at": "resultSummary", "fault": "'name' is a required property"},
        {"at": "resultSummary.age", "fault": "-1 is less than the minimum of 0"},
    ]
    assert refusal.value.details["resultSchema"] == PEOPLE


def test_error_for_a_result_lists_a_limited_number_of_violations() -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_result({"items": {"type": "null"}}, [1] * 100)
    errors = refusal.value.details["missing"]
    assert isinstance(errors, list)
    assert len(errors) == MAX_ERRORS


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        ({"anyOf": [{"type": "null"}] * 500}, [1] * 200),
        ({"anyOf": [{"type": "null"}] * 500}, "x" * 200_000),
        ({"anyOf": [{"type": "null"}] * 500}, {"x" * 200_000: 1}),
        ({}, nested(100_000, "a")),
    ],
)
def test_result_that_is_too_expensive_to_check_raises_too_large(schema: Json, result: Json) -> None:
    with pytest.raises(TooLarge) as refusal:
        check_result(schema, result)
    assert refusal.value.details["argument"] == "resultSummary"


def test_result_with_an_integer_beyond_the_float_range_is_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot be checked"):
        check_result({"multipleOf": 0.5}, 10**400)


NUMBERS = st.floats(allow_nan=False)
JSON = any_json("a", "b", "type", "items", "$id", scalars=EXACT_SCALARS | NUMBERS)
SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "number", "integer", "null"]),
        "minimum": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
        "multipleOf": st.sampled_from([1, 3, 0.1, 1e-300, 1e300]),
        "maxLength": st.integers(0, 3),
        "minItems": st.integers(0, 3),
        "required": st.lists(st.sampled_from("ab"), unique=True),
        "const": JSON,
        "enum": st.lists(JSON, max_size=3),
        "format": st.sampled_from(["date", "uri", "regex", "email"]),
    },
)
SCHEMAS = st.recursive(
    SIMPLE,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(
                st.sampled_from(["a", "b", "pattern"]), inner, max_size=3
            ),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=3),
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "oneOf": st.lists(inner, min_size=1, max_size=3),
            "not": inner,
            "if": inner,
            "then": inner,
            "contains": inner,
            "propertyNames": inner,
            "additionalProperties": inner | st.booleans(),
            "dependentSchemas": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        },
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(schema=SCHEMAS, result=JSON)
def test_result_check_raises_only_known_errors_for_any_valid_schema(
    schema: Json, result: Json
) -> None:
    check_schema(schema)
    try:
        check_result(schema, result)
    except WaybookError as refusal:
        assert refusal.code in {"INVALID_INPUT", "TOO_LARGE"}  # noqa: PT017 - both ways are fine


@given(schema=JSON, result=JSON)
def test_result_schema_check_raises_only_known_errors_for_any_json(
    schema: Json, result: Json
) -> None:
    try:
        check_schema(schema)
        check_result(schema, result)
    except WaybookError as refusal:
        assert refusal.code in {"INVALID_INPUT", "TOO_LARGE"}  # noqa: PT017 - both ways are fine
