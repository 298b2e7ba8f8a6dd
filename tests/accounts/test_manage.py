"""Changes of users and tokens, and the replay of their audit entries."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waybook.accounts.model import (
    NewUser,
    Org,
    User,
    add_token,
    add_user,
    change_org,
    change_scopes,
    disable_user,
    enable_user,
    record_org,
    revoke_token,
    row_of,
)
from waybook.app.accounts import authentication
from waybook.app.request import definition_cache
from waybook.core.changes import Entry, Event, replay
from waybook.core.decision_context import (
    Actor,
    Channel,
    DecisionContext,
    ReviewPolicy,
    Scope,
    expand_scopes,
)
from waybook.errors import Forbidden, InvalidInput, InvalidTransition

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ORG = Org(id="o", slug="acme")
SCOPES = st.lists(st.sampled_from(Scope), min_size=1).map(tuple)
HASH = 32 * "ab"


def make_moment(principal: str = "token:1") -> DecisionContext:
    numbers = count(1)
    actor = Actor("root", Channel.CLI, principal=principal)

    def new_id() -> str:
        return f"id-{next(numbers)}"

    return DecisionContext(NOON, actor, new_id, new_id)


def make_user(*scopes: Scope) -> User:
    return add_user(NewUser(name="ann", scopes=scopes or (Scope.ADMIN,)), make_moment())[0]


def make_token(
    *scopes: Scope, label: str = "laptop", lasts: timedelta | None = None
) -> dict[str, Any]:
    until = None if lasts is None else NOON + lasts
    return {"label": label, "secret_hash": HASH, "scopes": scopes, "expires_at": until}


@given(SCOPES, SCOPES)
def test_add_token_with_more_scopes_than_the_user_raises_forbidden(
    may: tuple[Scope, ...], requested: tuple[Scope, ...]
) -> None:
    user, new = make_user(*may), make_token(*requested)
    if expand_scopes(requested) <= expand_scopes(may):
        token, _ = add_token(user, make_moment(), **new)
        assert set(token.scopes) == set(requested)
    else:
        with pytest.raises(Forbidden) as refused:
            add_token(user, make_moment(), **new)
        assert set(refused.value.details["beyond"]) == expand_scopes(requested) - expand_scopes(may)  # type: ignore[call-overload]


def test_add_token_rejects_missing_scopes_bad_label_and_bad_lifetime() -> None:
    user = make_user()
    for new in (
        make_token(),
        make_token(Scope.REVIEW, label=" "),
        make_token(Scope.REVIEW, label="two\nlines"),
        make_token(Scope.REVIEW, label=201 * "x"),
        make_token(Scope.REVIEW, lasts=timedelta(0)),
    ):
        with pytest.raises(InvalidInput):
            add_token(user, make_moment(), **new)


def test_add_token_for_disabled_user_raises_invalid_transition() -> None:
    disabled, _ = disable_user(make_user(), make_moment())
    with pytest.raises(InvalidTransition):
        add_token(disabled, make_moment(), **make_token(Scope.REVIEW))


def test_revoking_token_or_disabling_user_twice_raises_invalid_transition() -> None:
    user, moment = make_user(), make_moment()
    token, _ = add_token(user, moment, **make_token(Scope.REVIEW))
    revoked, _ = revoke_token(token, moment)
    disabled, _ = disable_user(user, moment)
    with pytest.raises(InvalidTransition):
        revoke_token(revoked, moment)
    with pytest.raises(InvalidTransition):
        disable_user(disabled, moment)
    with pytest.raises(InvalidTransition):
        enable_user(user, moment)
    assert enable_user(disabled, moment)[0] == user
    assert change_org(ORG, moment, policy=ReviewPolicy.RELAYED) == (ORG, None)


@given(SCOPES, SCOPES)
def test_change_scopes_replaces_scopes_of_user_with_requested_scopes(
    old: tuple[Scope, ...], new: tuple[Scope, ...]
) -> None:
    user = make_user(*old)
    changed, entry = change_scopes(user, new, make_moment())
    assert changed == user._replace(scopes=tuple(scope for scope in Scope if scope in new))
    assert (entry is None) == (set(old) == set(new))
    if entry is not None:
        assert [change.field for change in entry.changes] == ["scopes"]
        assert entry.details["scopes"] == [*changed.scopes]


def test_change_scopes_without_any_scope_raises_invalid_input() -> None:
    with pytest.raises(InvalidInput):
        change_scopes(make_user(), (), make_moment())


def test_replay_of_org_audit_entries_rebuilds_org_users_and_tokens() -> None:
    moment = make_moment()
    recorded = record_org(ORG, moment)
    org, changed = change_org(ORG, moment, name=" Acme ", policy=ReviewPolicy.HUMAN)
    user, added = add_user(NewUser(name="ann", scopes=(Scope.REVIEW,)), moment)
    token, issued = add_token(user, moment, **make_token(Scope.PLAN_READ, lasts=timedelta(1)))
    limited, less = change_scopes(user, (Scope.PLAN_READ,), moment)
    disabled, shut = disable_user(limited, moment)
    revoked, ended = revoke_token(token, moment)
    assert isinstance(changed, Entry)
    assert isinstance(less, Entry)
    entries = (recorded, changed, added, issued, less, shut, ended)
    assert replay(change for entry in entries for change in entry.changes) == {
        "org": {"o": row_of(org)},
        "user": {user.id: row_of(disabled)},
        "token": {token.id: row_of(revoked)},
    }
    assert org.name == "Acme"
    assert {entry.event for entry in entries} == {Event.PLAN_MODIFIED}
    assert {entry.details["doneAs"] for entry in entries} == {"token:1"}
    assert [entry.details["action"] for entry in entries] == [
        *("org_recorded", "org_changed", "user_added"),
        *("token_added", "user_scopes_changed", "user_disabled", "token_revoked"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        definition_cache.BUILTIN_AUTHOR,
        authentication.SIGN_IN_ACTOR,
        "waybook",
        " WayBook  (Built in)",
    ],
)
def test_add_user_with_reserved_name_raises_invalid_input(name: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        add_user(NewUser(name=name, scopes=(Scope.ADMIN,)), make_moment())
    assert refusal.value.details == {"argument": "name"}
