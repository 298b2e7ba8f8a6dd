"""Migrations: each runs once, in order, in one process at a time; the schema is checked."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest

from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from tools.generate.files import SCHEMA
from tools.generate.schema import dump
from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Misconfigured, Unavailable
from waybook.store.driver.queries import Query
from waybook.store.maintenance import migrate as migrations
from waybook.store.maintenance.migrate import Migration, bundled_migrations, migrate


@pytest.fixture
def empty(server: Server) -> Iterator[ServerDatabase]:
    """Yield an empty database without any migration applied."""
    with new_database(server, template="template0") as place:
        yield place


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that replaces the list of bundled migrations."""

    def shipping(*bundle: Migration) -> None:
        monkeypatch.setattr(migrations, "bundled_migrations", lambda: list(bundle))

    return shipping


def query_rows(place: ServerDatabase, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(place.admin_dsn) as admin:
        return admin.execute(question.encode()).fetchall()


def names() -> list[str]:
    return [f"{migration.number:04}_{migration.name}" for migration in bundled_migrations()]


def test_empty_database_gets_all_migrations_and_the_local_org(
    empty: ServerDatabase,
) -> None:
    assert migrate(empty.owner_dsn) == names()
    assert query_rows(empty, "select org_id, slug from org") == [(LOCAL_ORG, "local")]


def test_migrating_an_up_to_date_database_applies_no_migration(empty: ServerDatabase) -> None:
    migrate(empty.owner_dsn)
    assert migrate(empty.owner_dsn) == []


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in bundled_migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_concurrent_migrate_calls_apply_every_migration_once(empty: ServerDatabase) -> None:
    gate = Barrier(4)

    def run() -> list[str]:
        gate.wait(PATIENCE_SECONDS)
        return migrate(empty.owner_dsn)

    with ThreadPoolExecutor(4) as threads:
        ran = [done.result(PATIENCE_SECONDS) for done in [threads.submit(run) for _ in range(4)]]
    assert sorted(name for applied in ran for name in applied) == names()
    assert query_rows(empty, "select count(*) from org") == [(1,)]


def test_error_for_an_edited_applied_migration_names_the_migration(
    empty: ServerDatabase, ship: Callable[..., None]
) -> None:
    migrate(empty.owner_dsn)
    first, *rest = bundled_migrations()
    ship(Migration(first.number, first.name, first.text + "\n-- edited"), *rest)
    with pytest.raises(Misconfigured, match=f"{first.number:04}_{first.name} was edited"):
        migrate(empty.owner_dsn)


def test_migrating_the_database_of_a_newer_waybook_raises_misconfigured(
    empty: ServerDatabase, ship: Callable[..., None]
) -> None:
    ours = bundled_migrations()
    newer = Migration(ours[-1].number + 1, "tomorrow", "select 1")
    ship(*ours, newer)
    assert migrate(empty.owner_dsn) == [*names(), f"{newer.number:04}_tomorrow"]
    ship(*ours)
    with pytest.raises(Misconfigured, match=r"newer Waybook.*upgrade"):
        migrate(empty.owner_dsn)


def test_failing_migration_is_rolled_back_and_migrate_can_run_again(
    empty: ServerDatabase, ship: Callable[..., None]
) -> None:
    ours = bundled_migrations()
    broken = Migration(ours[-1].number + 1, "broken", "create table half (a int); select 1/0")
    ship(*ours, broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty.owner_dsn)
    assert query_rows(empty, "select to_regclass('half')") == [(None,)]
    ship(*ours)
    assert migrate(empty.owner_dsn) == []


def test_local_org_exists_even_if_a_later_migration_fails(
    empty: ServerDatabase, ship: Callable[..., None]
) -> None:
    """One transaction creates the org and the tables, so that a crash cannot separate them."""
    ours = bundled_migrations()
    ship(*ours, Migration(ours[-1].number + 1, "broken", "select 1/0"))
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty.owner_dsn)
    assert query_rows(empty, "select org_id from org") == [(LOCAL_ORG,)]


def test_migrating_on_a_too_old_postgresql_server_raises_misconfigured(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MIN_SERVER_VERSION", 990_000)
    with pytest.raises(Misconfigured, match=r"this PostgreSQL is 1\d; Waybook needs 15"):
        migrate(empty.owner_dsn)


def test_migrating_an_unreachable_database_raises_unavailable(server: Server) -> None:
    with pytest.raises(Unavailable, match="cannot reach the database"):
        migrate(ServerDatabase(server=server, dbname="nowhere").owner_dsn)


def test_missing_serving_role_error_shows_the_sql_to_run(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_role = Query("role_exists", "select false")
    denied = Query("create_role", "do $$ begin raise insufficient_privilege; end $$")
    queries = {**migrations.SQL, "role_exists": no_role, "create_role": denied}
    monkeypatch.setattr(migrations, "SQL", queries)
    with pytest.raises(Misconfigured, match="create role waybook_app nologin"):
        migrate(empty.owner_dsn)


def test_schema_file_matches_the_migrated_schema(shared_place: ServerDatabase) -> None:
    assert SCHEMA.read_text("utf-8") == dump(shared_place.owner_dsn), "run `make generate`"


def test_recent_migrations_state_the_oldest_compatible_migration() -> None:
    for migration in bundled_migrations()[25:]:
        assert migrations.OLDEST_COMPATIBLE.search(migration.text), migration.title
        assert migration.oldest_compatible <= migration.number
