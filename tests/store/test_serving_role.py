"""Check at startup that the database user can switch to the database role of the server."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from postgres_servers import ServerDatabase
from waybook.application import DatabaseServer, open_database
from waybook.bootstrap import start_application
from waybook.errors import Misconfigured, Unavailable
from waybook.settings import Settings
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.migrate import APP_ROLE, check_serving_role, list_pending, migrate

GRANT = re.compile(rf"as an administrator run: (grant {APP_ROLE} to .+)$")


@contextmanager
def open_stranger(place: ServerDatabase, name: str) -> Iterator[str]:
    """Create a database user who may only connect to the database; yield the user's DSN."""
    named, password = sql.Identifier(name), sql.Literal("choose one")
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password {}").format(named, password))
        granted = sql.SQL("grant connect on database {} to {}")
        admin.execute(granted.format(sql.Identifier(place.dbname), named))
        try:
            yield make_conninfo(place.owner_dsn, user=name, password="choose one")  # noqa: S106
        finally:
            admin.execute(sql.SQL("drop owned by {0}; drop role {0}").format(named))


async def serve(place: ServerDatabase, dsn: str) -> None:
    """Open the database like a server with `dsn` and a separate DSN of the owner; run a query."""
    server = DatabaseServer(app_dsn=dsn, owner_dsn=place.owner_dsn, role=APP_ROLE)
    async with open_database(server, Settings()) as database:
        await database.list_org_ids()


@pytest.mark.parametrize("name", ["serving", 'An "odd" name; drop'])
async def test_database_user_without_server_role_is_shown_the_needed_grant(
    own_place: ServerDatabase, name: str
) -> None:
    with open_stranger(own_place, f"{name} {new_uuid()}") as dsn:
        with pytest.raises(Misconfigured) as refused:
            await serve(own_place, dsn)
        match = GRANT.search(refused.value.message)
        assert match, refused.value.message
        assert name.partition('"')[0] in refused.value.message
        with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
            admin.execute(match[1].encode())
        await serve(own_place, dsn)


async def test_application_does_not_start_if_user_lacks_server_database_role(
    own_place: ServerDatabase,
) -> None:
    with open_stranger(own_place, f"serving_{new_uuid()}") as dsn:
        both = Settings(database_url=dsn, owner_url=own_place.owner_dsn)
        with pytest.raises(Misconfigured, match=f"grant {APP_ROLE} to"):
            async with start_application(both):
                pass


@pytest.mark.parametrize("attribute", ["superuser", "bypassrls"])
def test_server_database_role_that_bypasses_rls_is_refused(
    own_place: ServerDatabase, attribute: str
) -> None:
    role = f"serving_{new_uuid().replace('-', '')}"
    with open_stranger(own_place, role) as dsn:
        check_serving_role(dsn, role)
        with psycopg.connect(own_place.admin_dsn, autocommit=True) as admin:
            admin.execute(f"alter role {role} {attribute}".encode())
            with pytest.raises(Misconfigured, match="bypasses row-level security") as refused:
                check_serving_role(dsn, role)
            admin.execute(refused.value.message.rpartition("run: ")[-1].encode())
        check_serving_role(dsn, role)


async def test_start_with_an_unknown_database_user_fails_immediately(
    own_place: ServerDatabase,
) -> None:
    unknown_role = make_conninfo(own_place.owner_dsn, user=f"nobody_{new_uuid()}")
    both = Settings(database_url=unknown_role, owner_url=own_place.owner_dsn)
    with pytest.raises(Unavailable, match="nobody_"):
        async with start_application(both):
            pass


async def test_error_for_migrating_as_a_non_owner_names_owner_url_setting(
    own_place: ServerDatabase,
) -> None:
    with open_stranger(own_place, f"serving_{new_uuid()}") as dsn:
        for look in (migrate, list_pending):
            with pytest.raises(Misconfigured, match="set owner_url to a URL") as refused:
                look(dsn)
            assert f"grant {APP_ROLE} to" in refused.value.message
