"""Evaluation of conditions, refused expressions, and error messages."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from enum import IntEnum, StrEnum

import pytest

from waybook.conditions.condition import VARIABLES, Condition, Outcome, compile_condition
from waybook.conditions.values import Json
from waybook.errors import BadExpression

UNMIXED = "ints and doubles do not mix, write whole doubles as 1.0"
EXAMPLE = "confidence < 0.5 && size(result.sources) == 0"


def outcome_of(source: str, result: Json = None, **others: Json) -> Outcome:
    values: Mapping[str, Json] = {"result": result, **others}
    return compile_condition(source).evaluate(values)


def refusal_of(source: str) -> BadExpression:
    with pytest.raises(BadExpression) as caught:
        compile_condition(source)
    return caught.value


@pytest.mark.parametrize(
    ("confidence", "sources", "fires"),
    [(0.3, [], True), (0.5, [], False), (0.3, ["a"], False), (0, [], True)],
)
def test_example_condition_fires_only_for_low_confidence_without_sources(
    confidence: float, sources: list[Json], *, fires: bool
) -> None:
    outcome = outcome_of(EXAMPLE, {"sources": sources}, confidence=confidence)
    assert (outcome.fired, outcome.error) == (fires, None)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("result.gone", "no field 'gone' at position 7; test it with has() first"),
        ("result.text.a", "cannot read field 'a' of a value of type string at position 12"),
        ("has(result.text.a)", "cannot look for field 'a' in a value of type string at position 0"),
        ("result.list[9] == 1", "no element 9 in a list of 2 at position 11"),
        (
            "result.list['a'] == 1",
            "the index of a list must be an int, but found string, at position 11",
        ),
        ("result[1]", "no key of type int in this map, its keys are strings, at position 6"),
        ("result.text[0]", "cannot index a value of type string at position 11"),
        ("1 / 0 == 1", "division by zero at position 2"),
        ("1 % 0 == 1", "modulus by zero at position 2"),
        ("9223372036854775807 + 1 > 0", "integer overflow at position 20"),
        ("result.text + 1 == 'a'", "cannot compute string + int at position 12"),
        ("1 + 0.5 > 1.0", f"cannot compute int + double at position 2; {UNMIXED}"),
        ("1.0 % 2.0 == 1.0", "cannot compute double % double at position 4"),
        ("-result.text == 1", "- needs a number, but found string, at position 0"),
        ("!result.text", "! needs true or false, but found string, at position 0"),
        ("result.text ? true : false", "? needs true or false, but found string, at position 12"),
        ("true && result.text", "&& needs true or false, but found string, at position 15"),
        ("result.text < 1", "cannot compare string < int at position 12"),
        (
            "1 in result.text",
            "in needs a list or a map on its right, but found string, at position 2",
        ),
        ("null in result", "null cannot be the key of a map, at position 5"),
        ("size(1) > 0", "size needs a string, list or map, but found int, at position 0"),
        (
            "result.list.contains('a')",
            "contains needs two strings, but found list and string, at position 12",
        ),
        ("result.text.all(x, true)", "all needs a list or a map, but found string, at position 12"),
        ("result.list.all(x, x)", "all needs true or false, but found int, at position 19"),
        ("size(result.list)", "the condition is of type int, neither true nor false"),
        ("confidence < 0.5", "the variable confidence has no value here at position 0"),
    ],
)
def test_runtime_error_of_a_condition_contains_message_and_position(
    source: str, error: str
) -> None:
    outcome = outcome_of(source, {"text": "abc", "list": [1, 2]})
    assert (outcome.fired, outcome.error) == (False, error)


def test_condition_error_truncates_long_key() -> None:
    error = outcome_of("result[result.key] == 1", {"key": "x" * 5_000}).error
    assert error is not None
    assert "no field 'xxx" in error
    assert len(error) < 120


def test_condition_over_a_value_that_is_not_json_returns_error() -> None:
    values: dict[str, Json] = {"a": (1, 2), "b": {"c": b"", "d": [b""]}}
    for source in ("result.a == 1", "result.b.c == 1", "result.b.d[0] == 1", "1 in result.b.d"):
        error = outcome_of(source, values).error
        assert error is not None
        assert "is no JSON value" in error


def test_condition_treats_enums_and_float_subclasses_as_plain_values() -> None:
    class Step(StrEnum):
        AGENT = "agent"

    class Order(IntEnum):
        FIRST = 1

    class Share(float):
        pass

    step: Json = {"type": Step.AGENT, "order": Order.FIRST, "share": Share(0.5)}
    source = "step.type + '!' == 'agent!' && step.order + 1 == 2 && step.share + 0.5 == 1.0"
    assert outcome_of(source, step=step).fired


def test_condition_can_read_every_declared_variable() -> None:
    for name in VARIABLES:
        assert compile_condition(f"{name}.a == 1").evaluate({name: {"a": 1}}).fired


def test_condition_cost_counts_nodes_and_macro_iterations() -> None:
    assert outcome_of("true").cost == 1
    assert outcome_of("1 + 1 == 2").cost == 5
    assert outcome_of("[1, 2, 3].all(x, x > 0)").cost == 8 + 3 * 4


def test_compiled_condition_is_immutable_and_contains_the_source() -> None:
    condition = compile_condition(EXAMPLE)
    assert condition == compile_condition(EXAMPLE)
    assert condition.source == EXAMPLE
    assert isinstance(condition, Condition)
    with pytest.raises(FrozenInstanceError):
        condition.source = "true"  # type: ignore[misc]  # the test is that this is refused


@pytest.mark.parametrize(
    ("source", "position", "message"),
    [
        ("", 0, "the condition is empty at position 0; write true for one that always fires"),
        ("  // nothing", 0, "the condition is empty"),
        ("1 +", 3, "unexpected end at position 3; expected a value"),
        ("(1", 2, "unexpected end at position 2; expected ')' to close the '(' at 0"),
        ("[1", 2, "expected ']' to close the '[' at 0"),
        ("{'a': 1", 7, "expected '}' to close the '{' at 0"),
        ("{'a' 1}", 5, "unexpected '1' at position 5; expected ':'"),
        ("{a: 1}", 1, "the keys of a map are string literals, as in JSON"),
        ("{'a': 1, 'a': 2}", 9, "the map has the key 'a' twice at position 9"),
        ("result.a = 1", 9, "unexpected character '=' at position 9; write == to compare"),
        ("result.a & true", 9, "write && for and"),
        ("result.a and true", 9, "unexpected 'and' at position 9; write && for and"),
        ("result.a or true", 9, "write || for or"),
        ("result.`a-b`", 7, 'write ["name"] for a field with an unusual name'),
        ("result.null", 7, 'write ["null"] for a field of this name'),
        ("result.1", 6, "unexpected '.1' at position 6"),
        ("result.'a'", 7, "unexpected 'a' at position 7; expected a field name"),
        ("'abc", 0, "this string is not closed on its line"),
        (r"'ab\q'", 3, r"unknown escape \q at position 3; write \\ for a backslash"),
        (r"'''\\q\q'''", 6, r"unknown escape \q at position 6"),
        (r"'a\ud800'", 2, r"\ud800 is no character at position 2"),
        (r"r'\'", 0, "this raw string ends in a backslash"),
        ("1u == 1", 0, "uint literals are not supported at position 0"),
        ("b'a' == 'a'", 0, "bytes literals are not supported at position 0"),
        ("1 == 99999999999999999999", 5, "does not fit in 64 bits at position 5"),
        ("a ? b ? c : d : e", 6, "put brackets around the inner condition"),
        ("-!true", 1, "around the operand"),
        ("for", 0, "'for' is a reserved word at position 0"),
        ("in", 0, "unexpected 'in' at position 0; expected a value"),
        (
            "size()",
            0,
            "the number of arguments of size must be 1, not 0, at position 0; write size(",
        ),
        ("result.size(1)", 7, "the number of arguments of size must be 0, not 1"),
        ("result.a.contains()", 9, "the number of arguments of contains must be 1, not 0"),
        ("contains(result.a, 'b')", 0, 'write result.text.contains("part")'),
        ("has(result)", 0, "write has(result.name)"),
        ("result.has(a)", 7, "write has(result.name)"),
        ("has(result.a, 1)", 0, "write has(result.name)"),
        ("result.l.exists(x)", 9, "write result.list.exists(x, x > 0)"),
        ("all(x, true)", 0, "write result.list.all(x, x > 0)"),
        ("result.l.filter(1, true)", 16, "the variable of filter must be a simple name"),
        ("result.l.map(x, x)", 9, "unknown function 'map' at position 9; there are size"),
        ("result.l.exists_one(x, x)", 9, "unknown function 'exists_one' at position 9"),
        ("result.s.matches('a')", 9, "unknown function 'matches' at position 9"),
        ("result.l.all(x, true) && x", 25, "unknown name 'x' at position 25"),
        ("x.all(x, true)", 0, "unknown name 'x' at position 0"),
        ("'\ud800'", 1, "half a surrogate pair is no character at position 1"),
        ("true\x00", 4, r"unexpected character '\x00' at position 4"),
    ],
)
def test_error_for_an_invalid_condition_contains_message_and_position(
    source: str, position: int, message: str
) -> None:
    refusal = refusal_of(source)
    assert message in refusal.message
    assert refusal.details["position"] == position
    assert refusal.details["source"] == source
    assert refusal.code == "BAD_EXPRESSION"


@pytest.mark.parametrize(
    ("source", "hint", "message"),
    [
        (
            "score > 1",
            "result.score",
            "unknown name 'score' at position 0; did you mean result.score",
        ),
        ("result.a == done", "result.done", 'or the string "done"?'),
        ("result.a == None", "null", "did you mean null?"),
        ("not result.a", None, "unexpected 'result'"),
        ("len(result.a) > 1", "size", "unknown function 'len' at position 0; did you mean size?"),
        ("result.a.any(x, x)", "exists", "did you mean exists?"),
    ],
)
def test_unknown_name_in_a_condition_suggests_a_known_name(
    source: str, hint: str | None, message: str
) -> None:
    refusal = refusal_of(source)
    assert message in refusal.message
    assert refusal.details.get("hint") == hint


def test_condition_of_more_than_1000_characters_is_refused() -> None:
    assert compile_condition("true".ljust(1_000)).evaluate({}).fired
    refusal = refusal_of("true".ljust(1_001))
    assert "the condition has 1001 characters, 1000 are allowed" in refusal.message
    assert refusal.details["source"] == "true".ljust(1_000)
