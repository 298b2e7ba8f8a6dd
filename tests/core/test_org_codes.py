"""Codes at the end of an org's secrets, which identify the org (decision 0093)."""

from hypothesis import given
from hypothesis import strategies as st

from waybook.accounts.model import PREFIX, hash_token, looks_like_token
from waybook.core.org_codes import CODE_LENGTH, SECRET_LENGTH, org_in, with_org, without_org
from waybook.notifications.delivery import looks_like_secret

TOKENS = st.from_regex(f"{PREFIX}[A-Za-z0-9]{{40}}", fullmatch=True)
OTHER_SECRETS = st.from_regex(f"[A-Za-z0-9_-]{{{SECRET_LENGTH}}}", fullmatch=True)


@given(TOKENS | OTHER_SECRETS, st.uuids())
def test_adding_org_code_to_secret_does_not_change_the_hash(secret: str, org_id: object) -> None:
    routed = with_org(secret, org_id)  # type: ignore[arg-type]  # ids of any version
    assert org_in(routed) == org_id
    assert without_org(routed) == secret
    assert hash_token(routed) == hash_token(secret)
    assert looks_like_token(routed) == looks_like_token(secret)
    assert looks_like_secret(routed) == looks_like_secret(secret)


@given(st.text(max_size=SECRET_LENGTH + CODE_LENGTH + 2))
def test_reading_org_code_from_any_text_raises_no_error(text: str) -> None:
    org_id = org_in(text)
    assert org_id is None or with_org(text[:SECRET_LENGTH], org_id) == text
