"""State that a browser keeps during an external sign-in: returned unchanged, or rejected."""

from base64 import urlsafe_b64encode

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.integrations.oidc_login import attempt_from_cookie, new_attempt

WHOLE = {"state": "s", "nonce": "n", "verifier": "v", "then": "/"}


def kept(text: bytes) -> str:
    return urlsafe_b64encode(text).decode()


@given(then=st.text())
def test_attempt_cookie_round_trip_is_lossless(then: str) -> None:
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
        orjson.dumps({**WHOLE, "more": ""}),
        orjson.dumps({**WHOLE, "state": 1}),
        orjson.dumps({**WHOLE, "then": None}),
        orjson.dumps({name: "x" for name in WHOLE if name != "nonce"}),
    ],
    ids=lambda text: text[:30],
)
def test_attempt_from_cookie_malformed_payload_is_rejected(text: bytes) -> None:
    assert attempt_from_cookie(kept(text)) is None


@given(st.text() | st.binary().map(kept))
def test_attempt_from_cookie_arbitrary_text_is_rejected(text: str) -> None:
    assert attempt_from_cookie(text) is None
