"""The form for conditions converts comparisons to expressions and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.conditions.condition import (
    COMPARISONS,
    TEXT_FUNCTIONS,
    Comparison,
    compile_condition,
    is_field,
    read_comparison,
    write_comparison,
)
from waybook.conditions.values import Json

#: Texts that a field of the form can contain.
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
FIELDS = st.sampled_from(
    ("result", "confidence", "report.text", "step.attempt", 'result["a b"]', "result.items[0].n")
)


def fires(expression: str, result: Json) -> bool:
    outcome = compile_condition(expression).evaluate({"result": result})
    assert outcome.error is None, (expression, outcome.error)
    return outcome.fired


@given(TEXTS)
def test_text_value_in_condition_form_is_read_back_unchanged(text: str) -> None:
    for operator in ("==", "contains"):
        quoted = write_comparison(Comparison(field="result", operator=operator, value=text))
        read = read_comparison(quoted)
        assert read is not None, quoted
        again = read_comparison(write_comparison(read))
        assert again == read


@given(TEXTS)
def test_comparison_with_escaped_text_is_rewritten_with_same_meaning(text: str) -> None:
    source = read_comparison(f"result == {_quoted(text)}")
    assert source is not None
    assert fires(write_comparison(source), text)


def _quoted(text: str) -> str:
    escaped = "".join(f"\\U{ord(character):08x}" for character in text)
    return f'"{escaped}"'


@given(FIELDS, st.sampled_from([str(o) for o in COMPARISONS]), st.integers(-(2**53), 2**53))
def test_integer_value_in_condition_form_is_read_back_unchanged(
    field: str, operator: str, number: int
) -> None:
    comparison = Comparison(field=field, operator=operator, value=str(number))
    assert read_comparison(write_comparison(comparison)) == comparison


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_float_value_in_condition_form_is_read_back_unchanged(number: float) -> None:
    read = read_comparison(write_comparison(_equal(repr(number))))
    assert read is not None
    assert float(read.value) == number
    assert fires(write_comparison(read), number)


def _equal(value: str) -> Comparison:
    return Comparison(field="result", operator="==", value=value)


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("0", 0),
        ("-3", -3),
        ("true", True),
        ("null", None),
        ("high", "high"),
        ('"5"', "5"),
        ('"true"', "true"),
        ("it's", "it's"),
        ('a "word"', 'a "word"'),
        ("[1]", "[1]"),
    ],
)
def test_value_typed_in_condition_form_is_json_scalar_or_text(value: str, result: Json) -> None:
    expression = write_comparison(_equal(value))
    assert fires(expression, result)
    read = read_comparison(expression)
    assert read is not None
    assert read.value == value


@pytest.mark.parametrize("function", TEXT_FUNCTIONS)
def test_typed_digits_are_text_for_text_functions_such_as_contains(function: str) -> None:
    expression = write_comparison(Comparison(field="result", operator=function, value="42"))
    assert fires(expression, "42")
    read = read_comparison(expression)
    assert read is not None
    assert fires(write_comparison(read), "42")


@pytest.mark.parametrize(
    "source",
    [
        *("confidence < 0.5 && result == 1", "size(result.items) == 0", "!(result == 1)"),
        *("result in [1, 2]", "0 == result", "result == report", "result.exists(r, r == 1)"),
        *("result + 1 == 2", "true", "result =="),
    ],
)
def test_complex_expression_is_not_shown_as_comparison_in_condition_form(source: str) -> None:
    assert read_comparison(source) is None


@pytest.mark.parametrize("text", ["", "result.", "1", "size(result)", "result == 1", "result[x]"])
def test_condition_form_refuses_a_field_that_is_not_a_path(text: str) -> None:
    assert not is_field(text)
