"""Web sessions that have ended: retention deletes them after the retention period."""

import psycopg
import pytest

from auth_env import make_token
from org_env import OrgEnv
from waybook.accounts.model import hash_token
from waybook.app.accounts.authentication import authenticate_session, end_session, start_by_token
from waybook.store.maintenance import retention
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention

#: Changes to a session, each with whether retention then deletes the session. Retention keeps
#: sessions for ten days after their end. The last change has no effect.
FATES = (
    ("ended_at = now() - interval '9 days 23 hours'", False),
    ("ended_at = now() - interval '10 days 1 hour'", True),
    ("expires_at = now() - interval '9 days 23 hours'", False),
    ("expires_at = now() - interval '10 days 1 hour'", True),
    ("last_seen_at = now() - interval '10 days 7 hours'", False),
    ("last_seen_at = now() - interval '10 days 9 hours'", True),
    ("last_seen_at = last_seen_at", False),
)


async def test_retention_deletes_ended_web_sessions_only_after_the_time_limit(
    own_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_ROWS", 2)
    services, owner_dsn = own_world.dispatcher.services, own_world.place.owner_dsn
    remaining, browsers = set[bytes](), list[str]()
    with psycopg.connect(own_world.place.admin_dsn, autocommit=True) as admin:
        for agent in (own_world.agent, own_world.other_org):
            token = await make_token(agent)
            for fate, gone in FATES:
                secret = await start_by_token(services, token.secret)
                change = f"update web_session set {fate} where hash = %s"  # noqa: S608 - ours
                admin.execute(change.encode(), (hash_token(secret),))
                remaining |= set() if gone else {hash_token(secret)}
                browsers.append(secret)
        assert apply_retention(owner_dsn, RetentionPolicy(0, 0, 0)) == {}
        assert apply_retention(owner_dsn, RetentionPolicy(0, 0, 0, sessions=10)) == {
            "web_session": 6
        }
        assert {
            row[0] for row in admin.execute("select hash from web_session").fetchall()
        } == remaining
        assert apply_retention(owner_dsn, RetentionPolicy(0, 0, 0, sessions=10)) == {}
    # The sessions with the last change, which has no effect, are still valid.
    for secret in browsers[len(FATES) - 1 :: len(FATES)]:
        assert (await authenticate_session(services, secret))[1].name == "ann"


async def test_server_database_role_can_end_but_not_delete_web_session(own_world: OrgEnv) -> None:
    services = own_world.dispatcher.services
    token = await make_token(own_world.agent)
    await end_session(services, await start_by_token(services, token.secret))
    async with services.database.org_transaction(own_world.agent.org_id) as tx:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await tx.commit("delete from web_session")
