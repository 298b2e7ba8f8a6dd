"""Redaction masks texts that look like secrets, and leaves other texts unchanged."""

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.errors import NextCall, NotFound
from waybook.redaction import redact, redact_json, redactor

LETTERS = string.ascii_letters + string.digits
URL_SAFE = LETTERS + "-_"

tokens = st.text(LETTERS, min_size=40, max_size=40).map("wb_{}".format)
jwts = st.tuples(
    st.text(URL_SAFE, min_size=20, max_size=60),
    st.text(URL_SAFE, min_size=20, max_size=90),
    st.text(URL_SAFE, min_size=20, max_size=60),
).map(lambda parts: f"eyJ{parts[0]}.eyJ{parts[1]}.{parts[2]}")
#: Text around a secret. It has no letters, digits, underscores or hyphens, which would be part of
#: the secret.
around = st.text(st.characters(exclude_categories=["Cs", "L", "N"]), max_size=20).filter(
    lambda text: "_" not in text and "-" not in text
)


@given(around, st.one_of(tokens, jwts), around)
def test_redaction_masks_a_token_in_any_text(before: str, token: str, after: str) -> None:
    assert token not in redact(f"{before}{token}{after}")
    assert token.rsplit(".", maxsplit=1)[-1][3:] not in redact(f"{before}{token}{after}")


@given(st.text(LETTERS + "-._~+/", min_size=16, max_size=60))
def test_redaction_masks_the_value_of_an_authorization_header(secret: str) -> None:
    for text in (
        f"Authorization: Bearer {secret}",
        f"{{'authorization': 'Bearer {secret}'}}",
        f"(b'authorization', b'Basic {secret}')",
        f"refused: Bearer {secret}",
    ):
        assert secret not in redact(text), text


SECRETS = {
    "a password in a URL": "postgresql://ann:{}@db:5432/plans",
    "a password in a URL without a user": "redis://:{}@db",
    "a password in words": "host=db password='{}' user=ann",
    "a cookie": "Cookie: wb_session={}; theme=dark",
    "a query string": "GET /mcp?access_token={}&x=1",
    "a key in a query string": "POST /v1?api_key={}",
    "a code in a query string": "GET /sign-in/callback?state=x&code={}",
    "another scheme in a header": "Authorization: Digest {}",
    "no scheme in a header": "{{'authorization': '{}'}}",
    "the key of a model's endpoint": "the endpoint said no to sk-{}",
    "the secret of a webhook": "whsec_{}",
}


@pytest.mark.parametrize("where", SECRETS)
def test_redaction_masks_secrets_in_urls_headers_and_other_texts(where: str) -> None:
    secret = "c4n4ry-" + "Zq9" * 12
    assert secret not in redact(SECRETS[where].format(secret))


@pytest.mark.parametrize(
    "text",
    [
        "a bearer token is missing; send Authorization: …",
        "plan 01980000-0000-7000-8000-000000000000 is completed",
        "wb_stored_answer_1a2b3c4d_32 is not known",
        "https://example.org/nile?page=2",
        "the basic idea of the key result",
        "cookies are strict here",
    ],
)
def test_redaction_leaves_a_text_without_secrets_unchanged(text: str) -> None:
    assert redact(text) == text


@given(st.text())
def test_second_redaction_of_a_text_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


BOMBS = (
    *("://a:", "password=", "bearer ", "eyJa.eyJ", "wb_a", "cookie:"),
    # Words that repeat the beginning of a secret. A simple pattern would scan the rest of the word
    # for each repetition.
    *("-eyJaaaaaaaa", "-sk-a", "-whsec_", "?a_token", "authorization "),
)


@pytest.mark.parametrize("bomb", BOMBS)
def test_redaction_time_is_not_quadratic_in_the_text_length(bomb: str) -> None:
    """For a text that is 100 times longer, the time must not be 10,000 times longer."""
    short, long = (bomb * (n // len(bomb)) for n in (2_000, 200_000))
    begun = time.process_time()
    redact(short)
    once = time.process_time() - begun
    begun = time.process_time()
    redact(long)
    assert time.process_time() - begun < 2_000 * max(once, 0.0005)


def test_redaction_of_json_masks_secrets_in_keys_and_nested_values() -> None:
    token = "wb_" + "a1" * 20
    result = redact_json({"faults": [{"at": token, "n": 1}], token: None})
    assert result == {"faults": [{"at": "wb_…", "n": 1}], "wb_…": None}


def test_redactor_masks_known_values_that_are_long_enough() -> None:
    redact = redactor(["correct horse", "short", ""])
    assert redact("correct horse battery; short") == "… battery; short"


def test_error_containing_token_does_not_leak_token() -> None:
    token = "wb_" + "a1" * 20
    call = NextCall("get_plan_status", {"planId": token}, "look")
    error = NotFound(f"there is no plan {token}", next_call=call, planId=token)
    assert token not in str(error) + error.message + str(error.as_json())
