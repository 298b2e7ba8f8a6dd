"""Size limits of tool arguments, which are checked before the tool is called."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from any_json import any_json
from waybook.core.json_check import (
    MAX_DEPTH,
    MAX_INT,
    MAX_PLAIN_DEPTH,
    MAX_PLAIN_LENGTH,
    MAX_PLAIN_VALUES,
    check_json,
    is_plain_json,
)
from waybook.errors import InvalidInput


def nested(levels: int) -> Any:  # noqa: ANN401 - JSON
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


TAKEN = {
    "as deep as may be": nested(MAX_DEPTH),
    "the largest number": MAX_INT,
    "the least number": -MAX_INT,
    "a large fraction": 1e308,
    "every plane": "a\u00e9\u4e00\U0001f600\x01",
}
REFUSED = {
    "one level too deep": nested(MAX_DEPTH + 1),
    "a number too large": MAX_INT + 1,
    "a number too small": -MAX_INT - 1,
    "a number of thousands of digits": 10**5_000,
    "no number": float("nan"),
    "infinity": float("inf"),
    "less than anything": float("-inf"),
    "a NUL": "a\0b",
    "a NUL in a name": {"a\0b": 1},
    "half a character": "\ud800",
}


@pytest.mark.parametrize("kind", TAKEN)
def test_json_check_accepts_value_at_the_size_or_depth_limit(kind: str) -> None:
    assert check_json({"value": [TAKEN[kind]]} if kind != "as deep as may be" else TAKEN[kind])


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("where", ["alone", "in a list", "by a name"])
def test_json_check_rejects_unstorable_value_at_any_position(kind: str, where: str) -> None:
    value: Any = REFUSED[kind]
    placed = {"alone": value, "in a list": [value], "by a name": {"value": value}}[where]
    assert not is_plain_json({"value": placed})
    with pytest.raises(InvalidInput):
        check_json(placed)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.text(st.characters(), max_size=5)
)
VALUES = any_json(scalars=SCALARS)


@given(VALUES)
def test_value_that_passes_the_quick_check_passes_check_json(value: object) -> None:
    if is_plain_json(value):
        assert check_json(value)


def test_small_json_value_without_special_characters_skips_the_full_check() -> None:
    assert is_plain_json({"name": "a\u00e9", "list": [1, 2.5, True, {"deep": ""}]})


LARGE = {
    "a long text": {"value": "x" * (MAX_PLAIN_LENGTH + 1)},
    "a long name": {"x" * (MAX_PLAIN_LENGTH + 1): 1},
    "a long list": [1] * (MAX_PLAIN_VALUES + 1),
    "many levels": nested(MAX_PLAIN_DEPTH + 2),
    "a long list in a list": [[1] * (MAX_PLAIN_VALUES + 1)],
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_json_value_is_checked_completely(kind: str) -> None:
    assert not is_plain_json(LARGE[kind])
