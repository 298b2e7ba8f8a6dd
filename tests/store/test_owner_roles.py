"""Database owners who bypass row-level security: they change the rows of one org only.

A second org has rows with the same ids, so that a statement without an org condition would change
these rows too.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from uuid import UUID

import psycopg
import pytest

from erasure_checks import LEFT, erased_org, ignore_progress, rows_of, slug_of, tables
from org_env import OrgEnv, make_env
from owner_roles import (
    EXEMPT,
    LEAVING,
    OWNERS,
    clone,
    empty_place,
    fill,
    make_everything_old,
    open_role,
    place_owned_by,
    transfer_ownership,
)
from postgres_servers import Server, ServerDatabase, new_database
from rls_only_queries import SWITCH, stripping
from waybook.app.operations.erasure import erase_user
from waybook.errors import Misconfigured, Refused
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import Query, load, new_uuid
from waybook.store.maintenance import owner as owners
from waybook.store.maintenance.migrate import MAINTENANCE_ROLE, migrate, owner_connection
from waybook.store.maintenance.owner import examine_owner
from waybook.store.maintenance.retention import RetentionPolicy, apply_retention

NAME = "Zoë Twin"
#: Tables from which retention deletes old rows, besides the tables of plans and runs.
OLD_TABLES = {"idempotency_answer", "mcp_tool_call_log", "web_session"}
KEEP = RetentionPolicy(calls=30, answers=30, archived=30, sessions=30)
#: Tables that may be empty or missing: agents do not fill them, or only some servers have them.
SOMETIMES = LEFT | {"passage_vector"}


@pytest.fixture(params=OWNERS)
def kind(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
async def filled(kind: str, server: Server) -> AsyncIterator[OrgEnv]:
    """Yield a test environment with this kind of database owner, and rows in every table."""
    with place_owned_by(kind, server) as place:
        async with make_env(place) as world:
            await fill(world, NAME)
            yield world


async def erase_ours(world: OrgEnv) -> None:
    await erased_org(world.place, slug_of(world.agent))


async def rename_ours(world: OrgEnv, name: str = NAME) -> None:
    slug = slug_of(world.agent)
    await erase_user(world.place.owner_dsn, slug, name, by="operator", progress=ignore_progress)


async def test_erasing_an_org_spares_another_org_with_same_ids(filled: OrgEnv) -> None:
    place = filled.place
    # Erase a user, so that the org has rows about erased users too.
    await rename_ours(filled, LEAVING)
    twin = clone(place, filled.agent)
    before = rows_of(place, twin)
    assert set(before) >= set(tables(place)) - {"passage_vector"}
    await erase_ours(filled)
    assert set(rows_of(place, filled.agent.org_id)) == LEFT
    assert rows_of(place, twin) == before


async def test_retention_and_user_erasure_spare_another_org_with_same_ids(filled: OrgEnv) -> None:
    place = filled.place
    twin = clone(place, filled.agent)
    before = rows_of(place, twin)
    assert set(before) >= set(tables(place)) - SOMETIMES
    await rename_ours(filled)
    assert NAME not in str(rows_of(place, filled.agent.org_id))
    assert rows_of(place, twin) == before
    make_everything_old(place, filled.agent)
    gone = apply_retention(place.owner_dsn, KEEP)
    left = rows_of(place, filled.agent.org_id)
    deleted = {*load("maintenance/archived_plans"), *load("maintenance/archived_runs")} - {
        "webhook_delivery"
    }
    assert deleted | OLD_TABLES == set(gone)
    assert set(left) & {"plan", "run", "idempotency_answer", "web_session"} == set()
    assert rows_of(place, twin) == before


@pytest.fixture(params=EXEMPT)
def exempt(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@contextmanager
def without_policies() -> Iterator[None]:
    """Disable the code that applies row-level security to owners who could bypass it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owners, "confine", lambda _: None)
        yield


async def change_ours_in_every_way(world: OrgEnv) -> None:
    await rename_ours(world)
    apply_retention(world.place.owner_dsn, KEEP)
    await erase_ours(world)


async def check_owner_changes(
    kind: str, server: Server, without: AbstractContextManager[object]
) -> None:
    """Check that the owner changes the rows of one org only, while `without` disables a check."""
    with place_owned_by(kind, server) as place:
        async with make_env(place) as world:
            await fill(world, NAME)
            twin = clone(place, world.agent)
            make_everything_old(place, world.agent)
            before = rows_of(place, twin)
            with without:
                await change_ours_in_every_way(world)
            assert set(rows_of(place, world.agent.org_id)) == LEFT
            assert rows_of(place, twin) == before


@pytest.mark.skipif(SWITCH in os.environ, reason="the org conditions are removed from the queries")
async def test_org_conditions_alone_keep_owner_from_changing_other_orgs(
    exempt: str, server: Server
) -> None:
    await check_owner_changes(exempt, server, without_policies())


async def test_rls_policies_alone_keep_owner_from_changing_other_orgs(
    exempt: str, server: Server
) -> None:
    await check_owner_changes(exempt, server, stripping())


async def test_owner_changes_are_refused_without_rls_and_org_conditions(
    exempt: str, server: Server
) -> None:
    with place_owned_by(exempt, server) as place:
        async with make_env(place) as world:
            await fill(world, NAME)
            twin = clone(place, world.agent)
            make_everything_old(place, world.agent)
            orgs = (world.agent.org_id, twin)
            before = [rows_of(place, org_id) for org_id in orgs]
            with without_policies(), stripping():
                for change in (erase_ours, rename_ours):
                    with pytest.raises(Refused, match="rows of other orgs"):
                        await change(world)
                with pytest.raises(Refused, match="rows of other orgs"):
                    apply_retention(place.owner_dsn, KEEP)
            assert [rows_of(place, org_id) for org_id in orgs] == before


def test_owner_statement_that_changes_other_orgs_is_refused(server: Server) -> None:
    with place_owned_by("superuser", server) as place:
        orgs = [UUID(new_uuid()) for _ in range(2)]
        for org_id in orgs:
            add_org(place.owner_dsn, org_id, f"org-{org_id}")
        both = Query("both", "update org set name = %(name)s")
        with (
            without_policies(),
            pytest.raises(Refused, match="rows of other orgs"),
            owners.owner_transaction(place.owner_dsn, orgs[0]) as owner,
        ):
            owner.execute_many(both, [{"name": "renamed"}])
        assert "renamed" not in str([rows_of(place, org_id) for org_id in orgs])


def test_owner_query_with_org_condition_fails_if_org_is_missing(own_place: ServerDatabase) -> None:
    with (
        owner_connection(own_place.owner_dsn) as connection,
        owners.directory_transaction(connection) as owner,
        pytest.raises(ValueError, match="needs an org"),
    ):
        owner.fetch(Query("of_one", "select 1 where %(org_id)s is null"))


ADVICE = re.compile(r"As an administrator run: (.+); and then: waybook migrate$")


async def test_erasure_by_rls_exempt_owner_needs_the_maintenance_role(server: Server) -> None:
    with open_role(server, "bypassrls") as dsn, new_database(server) as made:
        place = replace(made, server=replace(server, owner_dsn=dsn))
        transfer_ownership(place)
        migrate(place.owner_dsn)
        async with make_env(place) as world:
            await fill(world, NAME)
            make_everything_old(place, world.agent)
            before = rows_of(place, world.agent.org_id)
            for change in (erase_ours, rename_ours):
                with pytest.raises(Misconfigured, match="bypasses row-level security"):
                    await change(world)
            with pytest.raises(Misconfigured, match="nothing was changed"):
                apply_retention(place.owner_dsn, KEEP)
            assert rows_of(place, world.agent.org_id) == before
            # Partitions were created, because this needs no data of an org.
            assert has_weekly_partitions(place)
            follow(place)
            await change_ours_in_every_way(world)


def has_weekly_partitions(place: ServerDatabase) -> bool:
    with psycopg.connect(place.admin_dsn) as admin:
        weekly = "select 1 from pg_class where relname ~ '^mcp_tool_call_log_[0-9]{8}$'"
        return bool(admin.execute(weekly).fetchall())


def follow(place: ServerDatabase) -> None:
    """Run the SQL statement that the error suggests; check that the error does not occur again."""
    advice = ADVICE.search(examine_owner(place.owner_dsn).refusal or "")
    assert advice
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute(advice[1].encode())
    migrate(place.owner_dsn)
    assert examine_owner(place.owner_dsn).refusal is None


def test_migrate_grants_missing_privileges_to_the_maintenance_role(
    exempt: str, server: Server
) -> None:
    with place_owned_by(exempt, server) as place:
        with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
            admin.execute(f"revoke delete on plan from {MAINTENANCE_ROLE}")
        lacking = examine_owner(place.owner_dsn).refusal or ""
        assert lacking.startswith(f"the role {MAINTENANCE_ROLE} may not change plan; nothing")
        assert lacking.endswith("Run as the owner: waybook migrate")
        migrate(place.owner_dsn)
        assert examine_owner(place.owner_dsn).refusal is None


@pytest.mark.parametrize("change", ["no force", "disable"])
async def test_erasing_an_org_is_refused_if_rls_is_not_forced(
    own_world: OrgEnv, change: str
) -> None:
    place = own_world.place
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute(f"alter table plan_step {change} row level security".encode())
    with pytest.raises(Misconfigured, match="not in force on plan_step for the owner"):
        await erase_ours(own_world)
    assert "plan_step" in rows_of(place, own_world.other_org.org_id)


@pytest.mark.parametrize("attributes", ["bypassrls", "superuser"])
def test_migrate_gives_maintenance_role_to_an_rls_exempt_owner(
    server: Server, attributes: str
) -> None:
    member = attributes != "superuser"
    with open_role(server, attributes, member=member) as dsn, empty_place(server, dsn) as place:
        migrate(place.owner_dsn)
        owner = examine_owner(place.owner_dsn)
        assert (owner.is_exempt, owner.refusal) == (True, None)


def test_migrate_creates_no_maintenance_role_for_an_ordinary_owner(
    own_place: ServerDatabase,
) -> None:
    migrate(own_place.owner_dsn)
    owner = examine_owner(own_place.owner_dsn)
    assert (owner.is_exempt, owner.refusal) == (False, None)
    with psycopg.connect(own_place.admin_dsn) as admin:
        granted = admin.execute(
            "select 1 from pg_class where relacl::text like %s", (f"%{MAINTENANCE_ROLE}%",)
        )
        assert granted.fetchall() == []


def test_maintenance_role_has_row_access_and_no_other_privileges(server: Server) -> None:
    with place_owned_by("superuser", server) as place, psycopg.connect(place.admin_dsn) as admin:
        role = admin.execute(
            """select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,
                      rolcanlogin
                 from pg_roles where rolname = %s""",
            (MAINTENANCE_ROLE,),
        ).fetchone()
        assert role == (False,) * 6
        admin.execute(f"set local role {MAINTENANCE_ROLE}")
        for statement in ("drop table plan", "truncate plan", "select 1 from schema_migration"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), admin.transaction():
                admin.execute(statement.encode())
        for table in tables(place):
            cursor = admin.execute(f"select 1 from {table} limit 1".encode())  # noqa: S608
            assert cursor.fetchall() == [], table
