"""Browsers that signed in, each known by the hash of a secret that only it has."""

from typing import Any, NamedTuple
from uuid import UUID

from waybook.record.scopes import Scope, expand_scopes
from waybook.store.sql import Statement, load

SQL = load("web_sessions")


class SessionUser(NamedTuple):
    """Whoever sits at a browser that signed in."""

    org_id: UUID
    session_id: str
    #: The token they signed in with, if it was one.
    token_id: str | None
    name: str
    #: What the org is called.
    org: str
    #: What both the user and the token may do.
    scopes: frozenset[Scope]
    #: Whether they were last seen so long ago that it should be noted.
    record_use: bool


def by_session_statements() -> list[Statement]:
    """Ask whose session this is; for a message that bears a secret."""
    return [SQL["name_org_by_session"](), SQL["person_of_session"]()]


def read_person(rows: list[tuple[Any, ...]]) -> SessionUser | None:
    """The person these statements found, if the session counts."""
    if not rows:
        return None
    org_id, session_id, token_id, name, org, users, tokens, to_note = rows[0]
    scopes = expand_scopes(map(Scope, users))
    if token_id is not None:
        scopes &= expand_scopes(map(Scope, tokens))
    return SessionUser(org_id, session_id, token_id, name, org, scopes, to_note)


def start_statement(session_id: str, secret_hash: bytes, user_id: str) -> Statement:
    """Let a person's browser in."""
    return SQL["insert_session"](id=session_id, user_id=user_id, hash=secret_hash)


def start_by_token_statement(session_id: str, secret_hash: bytes, token_id: str) -> Statement:
    """Let the browser of whoever showed a token in."""
    return SQL["insert_session_by_token"](id=session_id, hash=secret_hash, token_id=token_id)


def seen_statement(session_id: str) -> Statement:
    """Note that somebody was there."""
    return SQL["session_seen"](id=session_id)


def end_statement(session_id: str) -> Statement:
    """Let it count no more."""
    return SQL["end_session"](id=session_id)
