"""The JSON-RPC parser rejects what the MCP library rejects, and replies are compact JSON."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import ErrorData, jsonrpc_message_adapter

from waybook.transport.jsonrpc import compact_json, read_message


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode) | st.text().map(json.dumps).map(str.encode))
def test_any_bytes_parse_as_json_rpc_message_or_error(body: bytes) -> None:
    assert isinstance(read_message(body), dict | ErrorData)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=3,
)


MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": JSON_VALUES,
        "method": st.text() | JSON_VALUES,
        "params": st.dictionaries(st.text(), JSON_VALUES) | JSON_VALUES,
        "result": JSON_VALUES,
        "error": st.fixed_dictionaries({"code": JSON_VALUES, "message": JSON_VALUES}) | JSON_VALUES,
        "x": JSON_VALUES,
    },
)


@settings(deadline=None)
@given(MESSAGES)
def test_json_rpc_parser_rejects_messages_that_the_library_rejects(
    message: dict[str, object],
) -> None:
    read = read_message(json.dumps(message).encode())
    if not isinstance(read, ErrorData):
        jsonrpc_message_adapter.validate_python(read, by_name=False)


#: Floats of all sizes, because JSON encoders write large and small numbers with an exponent.
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    lambda digits, exponent: float(f"{digits}e{exponent}"),
    st.integers(min_value=-(10**17), max_value=10**17),
    st.integers(min_value=-25, max_value=8),
)
TEXTS = st.text(max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=100)
@given(body=st.dictionaries(TEXTS, VALUES, max_size=4))
def test_compact_json_equals_output_of_the_standard_json_module(body: dict[str, object]) -> None:
    expected = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert compact_json(body) == expected


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_compact_json_of_infinity_or_nan_is_an_error(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact_json({"steps": [number]})
