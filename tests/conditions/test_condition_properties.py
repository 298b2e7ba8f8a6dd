"""Any text is refused, or compiles to a condition that evaluates as in CEL."""

import re
import string
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from any_json import any_json
from waybook.conditions.condition import compile_condition
from waybook.conditions.values import BUDGET, Json
from waybook.errors import BadExpression

Reading: TypeAlias = Callable[[str, Mapping[str, Json]], str]

steady = settings(max_examples=200, derandomize=True, database=None, deadline=None)

_SIGNS = [*string.punctuation, " ", "\n", "\x00", "\ud800", "é", "&&", "||", "==", "===", "!=="]
_WORDS = ["result", "plan", "x", "true", "null", "in", "as", "has(", "size(", ".exists(x,", ".a"]
_LITERALS = ["1", "1.5", "1u", "0x1", "1e999", "'a'", "'''", "r'", "\\u", "[0]"]

pieces = st.sampled_from([*_SIGNS, *_WORDS, *_LITERALS])
texts = st.text(max_size=50) | st.lists(pieces, max_size=30).map("".join)

values = any_json()


@steady
@given(texts, values)
def test_any_text_compiles_or_is_refused_with_a_position(text: str, value: Json) -> None:
    try:
        condition = compile_condition(text)
    except BadExpression as caught:
        refusal = caught
    else:
        outcome = condition.evaluate({"result": value, "plan": value})
        assert 0 < outcome.cost <= BUDGET
        return
    position = refusal.details["position"]
    assert isinstance(position, int)
    assert 0 <= position <= len(text)
    assert re.search(rf"at position {position}\b", refusal.message)


@steady
@given(st.lists(pieces, max_size=8).map("".join))
def test_every_accepted_condition_evaluates_as_in_cel(
    ours: Reading, real: Reading, text: str
) -> None:
    values: dict[str, Json] = {"result": {"a": [1]}, "plan": {}}
    result = ours(text, values)
    if result != "refused" and "===" not in text and "!==" not in text:
        assert result == real(text, values)
