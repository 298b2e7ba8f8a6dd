import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_json import EXACT_SCALARS, any_json
from waybook.conditions.values import Json
from waybook.dag.templates.filters import FILTERS, TESTS, compare, iterate


@pytest.mark.parametrize(
    ("name", "value", "arguments", "expected"),
    [
        ("cell", "a | b\nc", (), "a \\| b c"),
        ("cell", None, (), ""),
        ("default", None, ("-",), "-"),
        ("default", "", ("-",), "-"),
        ("default", [], ("-",), "-"),
        ("default", 0, ("-",), 0),
        ("default", False, ("-",), False),
        ("first", [1, 2], (), 1),
        ("first", {"a": 1}, (), "a"),
        ("first", [], (), None),
        ("first", "word", (), "word"),
        ("heading", "a\nb", (), "## a b"),
        ("heading", "a", (9,), "###### a"),
        ("heading", "a", (0,), "# a"),
        ("heading", "a", ("x",), "## a"),
        ("items", {"a": 1}, (), [["a", 1]]),
        ("items", [1], (), []),
        ("join", ["a", 1, None, True], ("-",), "a-1--true"),
        ("join", [{"a": 1}, {"a": 2}, {}, 3], (", ", "a"), "1, 2, , "),
        ("join", "word", (",",), "word"),
        ("join", None, (), ""),
        ("last", [1, 2], (), 2),
        ("last", {"a": 1, "b": 2}, (), "b"),
        ("last", (), (), None),
        ("last", 3, (), 3),
        ("length", [1, 2], (), 2),
        ("length", "abc", (), 3),
        ("length", {"a": 1}, (), 1),
        ("length", 7, (), 0),
        ("lower", "ABC", (), "abc"),
        ("markdown", {"a": ["b"]}, (3,), "### A\n\n- b"),
        ("title", "two words", (), "Two Words"),
        ("tojson", {"a": "é"}, (), '{"a": "é"}'),
        ("trim", " a ", (), "a"),
        ("upper", None, (), ""),
        ("upper", ["a"], (), '["A"]'),
    ],
)
def test_template_filters_convert_and_format_values(
    name: str, value: Json, arguments: tuple[Json, ...], expected: Json
) -> None:
    assert FILTERS[name].function(value, *arguments) == expected


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (None, {"none"}),
        ("a", {"defined", "string"}),
        (1, {"defined", "number"}),
        (1.5, {"defined", "number"}),
        (True, {"defined"}),
        ([1], {"defined", "list"}),
        ({"a": 1}, {"defined", "mapping"}),
    ],
)
def test_template_can_check_the_type_of_a_value(value: Json, kinds: set[str]) -> None:
    assert {name for name, test in TESTS.items() if test(value)} == kinds


@pytest.mark.parametrize(
    ("left", "operator", "right"),
    [
        (1, "eq", 1.0),
        ("a", "ne", "b"),
        (1, "lt", 2),
        (2, "lteq", 2),
        ("b", "gt", "a"),
        (2.5, "gteq", 2),
        ("a", "in", "cab"),
        ("a", "in", {"a": 1}),
        ([1], "in", [[1]]),
        ("a", "notin", "b"),
        (1, "notin", "1"),
        (1, "notin", 1),
        ({}, "notin", {"a": 1}),
    ],
)
def test_template_operators_compare_numbers_texts_lists_and_maps(
    left: Json, operator: str, right: Json
) -> None:
    assert compare(left, operator, right)


@pytest.mark.parametrize("operator", ["lt", "gt"])
@pytest.mark.parametrize(("left", "right"), [("1", 2), (None, 1), ([1], [2]), ({}, {}), (1, 1)])
def test_equal_or_incomparable_values_are_neither_less_nor_greater(
    operator: str, left: Json, right: Json
) -> None:
    assert not compare(left, operator, right)


VALUES = any_json(scalars=EXACT_SCALARS)


@given(VALUES, st.integers(1, 4))
def test_template_loop_unpacks_each_item_into_the_requested_variables(
    value: Json, parts: int
) -> None:
    items = iterate(value, parts)
    assert len(items) == len(iterate(value))
    assert all(isinstance(item, list) and len(item) == parts for item in items)
