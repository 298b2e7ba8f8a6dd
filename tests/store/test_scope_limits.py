"""Scopes of a caller: only those that both the credential and its user have."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.decision_context import Scope, expand_scopes
from waybook.store.accounts.accounts import SessionUser, TokenIdentity

ORG = UUID(int=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCOPES = st.lists(st.sampled_from([*Scope]), max_size=5)


@given(token=SCOPES, user=SCOPES)
def test_token_grants_only_scopes_that_token_and_user_both_have(
    token: list[Scope], user: list[Scope]
) -> None:
    scopes = [*map(str, token)], [*map(str, user)]
    bearer = TokenIdentity(ORG, "ann", "t-1", *scopes, record_use=False, now=NOW, recent_until=NOW)
    assert bearer.scopes == expand_scopes(token) & expand_scopes(user)


@given(user=SCOPES, token=st.none() | SCOPES)
def test_web_session_grants_only_scopes_that_user_and_token_both_have(
    user: list[Scope], token: list[Scope] | None
) -> None:
    scopes = [*map(str, user)], None if token is None else [*map(str, token)]
    token_id = None if token is None else "t-1"
    person = SessionUser(ORG, "s-1", token_id, "ann", "Acme", *scopes, record_use=False)
    assert person.scopes == (
        expand_scopes(user) if token is None else expand_scopes(user) & expand_scopes(token)
    )
