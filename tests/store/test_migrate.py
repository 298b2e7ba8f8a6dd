"""Migrations: each is applied once, in order, by one process at a time, and errors are reported."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Barrier

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasure_checks import ignore_progress
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from sample_migrations import SAMPLE, bundle
from waybook.accounts.model import LOCAL_ORG
from waybook.errors import Misconfigured, Unavailable
from waybook.store.driver.queries import Query
from waybook.store.maintenance import citus
from waybook.store.maintenance import migrate as migrations
from waybook.store.maintenance.backup import back_up
from waybook.store.maintenance.migrate import (
    APP_ROLE,
    Migration,
    apply,
    bundled_migrations,
    check_schema,
    list_pending,
    migrate,
    split_statements,
)

#: SQL that creates the table of migrations as an earlier version did, with two of its 39 rows.
EARLIER_BUILD = """
create table schema_migration (
  number             integer     not null primary key,
  name               text        not null,
  digest             text        not null,
  ran_at             timestamptz not null default now(),
  oldest_compatible  integer
);
insert into schema_migration (number, name, digest, oldest_compatible)
values (1, 'plans', 'a1', 1), (39, 'answered_revisions', 'b2', 36);
grant select on schema_migration to waybook_app;
create table passage_vector (org_id uuid);
"""
#: SQL that returns all tables and indexes, their privileges, and the recorded migrations.
CONTENT = """
select c.relname::text, c.relacl::text,
       (select string_agg(m::text, ' ' order by m.number) from schema_migration m)
  from pg_class c
 where c.relnamespace = 'public'::regnamespace
 order by c.relname
"""
#: Parts of an SQL statement, in which semicolons and quotes do not end the statement.
PARTS = st.sampled_from(
    ["a", "'b;'", "'it''s;'", '"c;"', "$$ d; 'e $$", "$f$ $$; $f$", "-- g; 'h\n", "/* i; */", "(j)"]
)
STATEMENTS = st.lists(PARTS, max_size=6).map(lambda parts: " ".join(["select", *parts]))
REFUSED = Migration(
    9999,
    "planted",
    "do $$ begin raise feature_not_supported using message = 'no such form'; end $$",
)


@pytest.fixture
def empty(server: Server) -> Iterator[ServerDatabase]:
    with new_database(server, template="template0") as place:
        yield place


def query_rows(place: ServerDatabase, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(place.admin_dsn) as admin:
        return admin.execute(question.encode()).fetchall()


def names() -> list[str]:
    return [migration.title for migration in bundled_migrations()]


def test_empty_database_gets_all_migrations_and_the_local_org(empty: ServerDatabase) -> None:
    assert migrate(empty.owner_dsn) == names()
    assert query_rows(empty, "select org_id, slug from org") == [(LOCAL_ORG, "local")]


def test_migrating_an_up_to_date_database_applies_no_migration(empty: ServerDatabase) -> None:
    migrate(empty.owner_dsn)
    assert migrate(empty.owner_dsn) == []


def test_migrations_are_numbered_without_gaps() -> None:
    numbers = [migration.number for migration in bundled_migrations()]
    assert numbers == list(range(40, 40 + len(numbers)))


def test_concurrent_migrate_calls_apply_every_migration_once(empty: ServerDatabase) -> None:
    gate = Barrier(4)

    def run() -> list[str]:
        gate.wait(PATIENCE_SECONDS)
        return migrate(empty.owner_dsn)

    with ThreadPoolExecutor(4) as threads:
        ran = [done.result(PATIENCE_SECONDS) for done in [threads.submit(run) for _ in range(4)]]
    assert sorted(name for applied in ran for name in applied) == names()
    assert query_rows(empty, "select count(*) from org") == [(1,)]


def test_later_migration_is_applied_to_the_database_of_an_older_program(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty.owner_dsn)
    bundle(monkeypatch, *bundled_migrations(), SAMPLE)
    assert list_pending(empty.owner_dsn) == [SAMPLE.title]
    assert migrate(empty.owner_dsn) == [SAMPLE.title]
    assert query_rows(empty, "select sample from plan") == []


def test_database_of_an_earlier_build_is_refused_and_left_untouched(empty: ServerDatabase) -> None:
    with psycopg.connect(empty.owner_dsn) as owner:
        owner.execute(EARLIER_BUILD)
    before = query_rows(empty, CONTENT)
    backup = BytesIO()
    for look in (
        lambda: migrate(empty.owner_dsn),
        lambda: list_pending(empty.owner_dsn),
        lambda: check_schema(empty.app_dsn, APP_ROLE),
        lambda: back_up(empty.owner_dsn, backup, ignore_progress),
    ):
        with pytest.raises(Misconfigured, match=r"earlier build of Waybook.*--data-dir"):
            look()
    assert query_rows(empty, CONTENT) == before
    assert backup.getvalue() == b""


def test_error_names_the_applied_migration_that_was_edited(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(empty.owner_dsn)
    first, *rest = bundled_migrations()
    bundle(monkeypatch, Migration(first.number, first.name, first.text + "\n-- edited"), *rest)
    with pytest.raises(Misconfigured, match=f"{first.title} was edited"):
        migrate(empty.owner_dsn)


def test_migrating_the_database_of_a_newer_waybook_raises_misconfigured(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = bundled_migrations()
    bundle(monkeypatch, *ours, SAMPLE)
    assert migrate(empty.owner_dsn) == [*(migration.title for migration in ours), SAMPLE.title]
    bundle(monkeypatch, *ours)
    with pytest.raises(Misconfigured, match=r"newer Waybook.*upgrade"):
        migrate(empty.owner_dsn)


def test_failing_migration_is_rolled_back_and_migrate_can_run_again(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failure undoes neither the earlier migrations nor the local org that they created."""
    ours = bundled_migrations()
    broken = Migration(SAMPLE.number, "broken", "create table half (a int); select 1/0")
    bundle(monkeypatch, *ours, broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty.owner_dsn)
    assert query_rows(empty, "select to_regclass('half')") == [(None,)]
    assert query_rows(empty, "select org_id from org") == [(LOCAL_ORG,)]
    bundle(monkeypatch, *ours)
    assert migrate(empty.owner_dsn) == []


def test_migrating_on_a_too_old_postgresql_server_raises_misconfigured(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "MIN_SERVER_VERSION", 990_000)
    with pytest.raises(Misconfigured, match=r"this PostgreSQL is 1\d; Waybook needs 15"):
        migrate(empty.owner_dsn)


def test_migrating_an_unreachable_database_raises_unavailable(server: Server) -> None:
    with pytest.raises(Unavailable, match="cannot reach the database"):
        migrate(ServerDatabase(server=server, dbname="nowhere").owner_dsn)


def test_error_for_missing_server_database_role_shows_the_sql_to_run(
    empty: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_role = Query("role_exists", "select false")
    denied = Query("create_role", "do $$ begin raise insufficient_privilege; end $$")
    queries = {**migrations.SQL, "role_exists": no_role, "create_role": denied}
    monkeypatch.setattr(migrations, "SQL", queries)
    with pytest.raises(Misconfigured, match="create role waybook_app nologin"):
        migrate(empty.owner_dsn)


def test_every_migration_contains_number_of_oldest_compatible_migration() -> None:
    for migration in bundled_migrations():
        assert migrations.OLDEST_COMPATIBLE.search(migration.text), migration.title
        assert migration.oldest_compatible <= migration.number


@given(st.lists(STATEMENTS, max_size=5))
def test_text_of_several_sql_statements_is_split_into_the_statements(
    statements: list[str],
) -> None:
    split = split_statements(";\n".join(statements))
    assert split == [statement.strip() for statement in statements]


def test_migration_refused_by_a_single_server_raises_psycopg_error(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(citus, "is_distributed", lambda _: False)
    with (
        pytest.raises(psycopg.errors.FeatureNotSupported, match="no such form"),
        psycopg.connect(shared_place.owner_dsn) as connection,
    ):
        apply(connection, REFUSED)


def test_migration_refused_by_a_cluster_raises_error_with_migration_name(
    shared_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(citus, "is_distributed", lambda _: True)
    monkeypatch.setattr(citus, "allow_foreign_keys", lambda _: None)
    with (
        pytest.raises(Misconfigured, match=r"9999_planted cannot .* \(no such form\).* restore"),
        psycopg.connect(shared_place.owner_dsn) as connection,
    ):
        apply(connection, REFUSED)
