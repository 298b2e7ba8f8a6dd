"""Costly conditions stop at a budget that counts operations, not time."""

import pytest

from waybook.conditions.condition import MAX_TREE_DEPTH, compile_condition
from waybook.conditions.tokens import MAX_NESTING_DEPTH
from waybook.conditions.values import BUDGET, Json
from waybook.errors import BadExpression


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


RESULT: Json = {
    "L": list(range(20_000)),
    "same": list(range(20_000)),
    "S": "a" * 60_000,
    "T": "a" * 28_000,
    "N": "a" * 7_000 + "b" + "a" * 7_000,
    "W": "😀" * 60_000,
    "K": "k" * 60_000,
    "M": {"k" * 60_000: 1},
    "M2": {"kk" * 30_000: 1},
    "deep": nested(10_000),
    "deeper": nested(10_000),
    "few": list(range(100)),
    "errors": [{}] * 20_000,
}

TOO_DEAR = (
    "result.L.filter(x, size(" + " + ".join(["result.L"] * 50) + ") > 0) == []",
    "result.few.all(x, result.few.all(y, result.few.all(z, x + y + z >= 0)))",
    "result.few.exists(x, result.L.exists(y, y < 0 || x < 0))",
    "result.L.all(x, x in result.L)",
    "result.L.all(x, result.L == result.same)",
    "result.few.all(x, result.few.all(y, result.S == result.S + ''))",
    "result.few.all(x, result.S + result.S + result.S != '')",
    "result.few.all(x, result.W < result.W + result.W)",
    "result.L.all(x, result.S.contains('b') == false)",
    "result.T.contains(result.N)",
    "result.few.all(x, result.few.all(y, result.S.startsWith(result.S)))",
    "result.few.all(x, result.few.all(y, result.S.endsWith(result.S)))",
    "result.few.all(x, result.few.all(y, result.M[result.K] == 1))",
    "result.few.all(x, result.few.all(y, result.K in result.M))",
    "result.few.all(x, result.few.all(y, result.M == result.M2))",
    "result.errors.exists(x, x.a) || true",
    "result.errors.all(x, x.a || x.b || x.c || true)",
    "result.few.all(x, result.deep == result.deeper)",
    " + ".join(["result.L"] * 60) + " == []",
    " + ".join(["result.S"] * 60) + "+ result.S + result.S.size() == ''",
)

CHEAP = (
    "result.L == result.same",
    "result.deep == result.deeper",
    "result.S.contains('b')",
    "result.S + result.S == result.W",
    "result.L.exists(x, x == 3)",
    "result.L[9223372036854775807] == 1",
    "1e400 > 1.0 && -1e400 < 1.0",
    "result.huge == 1 || " * 40 + "true",
)


@pytest.mark.parametrize("source", TOO_DEAR)
def test_expensive_condition_stops_with_an_error_at_the_cost_budget(source: str) -> None:
    outcome = compile_condition(source[:1_000]).evaluate({"result": RESULT})
    assert outcome.cost == BUDGET
    assert not outcome.fired
    assert outcome.error is not None
    assert "over the budget of 100000 operations at position" in outcome.error


@pytest.mark.parametrize("source", CHEAP)
def test_large_condition_is_evaluated_within_the_cost_budget(source: str) -> None:
    outcome = compile_condition(source).evaluate({"result": RESULT})
    assert outcome.cost < BUDGET
    assert outcome.error is None or "budget" not in outcome.error


def test_condition_integer_of_5000_digits_is_read_as_infinity() -> None:
    values: Json = {"big": 10**5_000, "list": [10**5_000] * 1_000}
    outcome = compile_condition("result.list.all(x, x == result.big)").evaluate({"result": values})
    assert outcome.fired
    assert outcome.cost == 7 + 1_000 * 5


@pytest.mark.parametrize(
    "source",
    [
        *("(" * 1_000, "[" * 1_000, "{'a':" * 200, "!" * 999 + "x", "-" * 999 + "x"),
        *("size(" * 200, "(" * 500 + ")" * 500, "true?true:" * 99 + "true"),
        *("result" + ".a" * 497, "result" + "[0]" * 331, "result.size()" + ".size()" * 141),
        *("1" + "+1" * 499, "1" + "==1" * 333, "result.a" + ".filter(x,x)" * 82, "9" * 1_000),
        *("'" * 1_000, '"""' * 333, "\\" * 1_000, "\x00" * 1_000, "\ud800" * 1_000),
        "a" * 100_000,
    ],
)
def test_condition_that_is_too_deep_or_malformed_raises_bad_expression(source: str) -> None:
    with pytest.raises(BadExpression):
        compile_condition(source)


@pytest.mark.parametrize(
    ("source", "fires"),
    [
        ("!" * 996 + "true", True),
        ("!" * 995 + "true", False),
        ("--" * 490 + "1 == 1", True),
        ("true" + "&&true" * 166, True),
        ("false" + "||true" * 165, True),
        ("[" + "1," * 400 + "].size() == 400", True),
        ("(" * (MAX_NESTING_DEPTH - 1) + "true" + ")" * (MAX_NESTING_DEPTH - 1), True),
        ("1" + "+1" * (MAX_TREE_DEPTH - 2) + f" == {MAX_TREE_DEPTH - 1}", True),
    ],
)
def test_long_condition_without_deep_nesting_is_accepted(source: str, *, fires: bool) -> None:
    outcome = compile_condition(source).evaluate({})
    assert (outcome.fired, outcome.error) == (fires, None)


def test_condition_with_macros_nested_to_maximum_depth_is_evaluated() -> None:
    layers = (MAX_NESTING_DEPTH - 2) // 2
    source = "[0].exists(a, (" * layers + "true" + "))" * layers
    assert compile_condition(source).evaluate({}).fired
