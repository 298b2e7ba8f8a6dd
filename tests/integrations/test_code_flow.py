"""Sign-in state in a cookie during an external sign-in: accepted only if unchanged."""

from base64 import urlsafe_b64encode

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.integrations.oidc_login import attempt_from_cookie, new_attempt

COMPLETE_STATE = {"state": "s", "nonce": "n", "verifier": "v", "then": "/"}


def encode_cookie(text: bytes) -> str:
    return urlsafe_b64encode(text).decode()


@given(then=st.text())
def test_sign_in_state_in_the_cookie_is_read_back_unchanged(then: str) -> None:
    flow = new_attempt(then)
    assert attempt_from_cookie(flow.to_cookie()) == flow


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        100_000 * b"[",
        b'{"state":' + 100_000 * b"[",
        orjson.dumps({**COMPLETE_STATE, "more": ""}),
        orjson.dumps({**COMPLETE_STATE, "state": 1}),
        orjson.dumps({**COMPLETE_STATE, "then": None}),
        orjson.dumps({name: "x" for name in COMPLETE_STATE if name != "nonce"}),
    ],
    ids=lambda text: text[:30],
)
def test_sign_in_cookie_with_malformed_payload_is_rejected(text: bytes) -> None:
    assert attempt_from_cookie(encode_cookie(text)) is None


@given(st.text() | st.binary().map(encode_cookie))
def test_sign_in_cookie_with_arbitrary_text_is_rejected(text: str) -> None:
    assert attempt_from_cookie(text) is None
