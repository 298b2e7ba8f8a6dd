"""Permissions of a credential: the intersection of its own scopes and its user's."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from waybook.core.decision_context import Scope, expand_scopes
from waybook.store.accounts.accounts import read_bearer, read_person

ORG = UUID(int=1)
SCOPES = st.lists(st.sampled_from([*Scope]), max_size=5)


@given(token=SCOPES, user=SCOPES)
def test_a_token_lets_one_do_what_both_it_and_its_user_may(
    token: list[Scope], user: list[Scope]
) -> None:
    found = read_bearer([(ORG, "ann", "t-1", [*map(str, token)], [*map(str, user)], False)])
    assert found is not None
    assert found.scopes == expand_scopes(token) & expand_scopes(user)


@given(user=SCOPES, token=st.none() | SCOPES)
def test_a_session_lets_one_do_what_both_its_user_and_its_token_may(
    user: list[Scope], token: list[Scope] | None
) -> None:
    told = [*map(str, user)], None if token is None else [*map(str, token)]
    token_id = None if token is None else "t-1"
    found = read_person([(ORG, "s-1", token_id, "ann", "Acme", *told, False)])
    assert found is not None
    assert found.scopes == (
        expand_scopes(user) if token is None else expand_scopes(user) & expand_scopes(token)
    )
