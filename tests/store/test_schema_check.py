"""Check that schema and queries can be distributed over a cluster by org (decision 0087)."""

from collections.abc import Iterator

import psycopg
import pytest

from postgres_servers import ServerDatabase
from refused_migrations import REFUSED
from tools.schema_check.check import (
    Catalog,
    check,
    check_queries,
    check_schema,
    query_texts,
    read_catalog,
)
from tools.schema_check.exceptions import OBJECTS, QUERIES
from tools.schema_check.migrations import check_migrations
from waybook.store.maintenance.migrate import Migration

CATALOG = Catalog(frozenset({"plan", "run", "source"}), frozenset({"app_now", "random"}))
TABLE = "create table planted (org_id uuid not null, id uuid not null)"
FUNCTION = "create function planted() returns trigger language plpgsql as 'begin end'"
EXECUTE = "execute function planted()"


@pytest.fixture
def connection(shared_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    """Yield a connection of the database owner; roll all changes back at the end."""
    with psycopg.connect(shared_place.owner_dsn) as opened:
        yield opened
        opened.rollback()


def test_schema_check_finds_no_violation_in_schema_and_queries(
    connection: psycopg.Connection,
) -> None:
    assert list(map(str, check(connection))) == []


def test_every_listed_exception_of_the_schema_check_is_needed(
    connection: psycopg.Connection,
) -> None:
    catalog = read_catalog(connection)
    schema = {violation.name for violation in check_schema(connection, catalog)}
    queries = {violation.name for violation in check_queries(query_texts(), catalog)}
    assert (schema, queries) == ({*OBJECTS}, {*QUERIES})


@pytest.mark.parametrize(
    ("planted", "name", "rule"),
    [
        ("create table planted (id uuid)", "planted", "no column org_id"),
        (TABLE, "planted", "row-level security"),
        (f"{TABLE}; alter table planted add primary key (id)", "planted_pkey", "unique index"),
        (f"{TABLE}; alter table planted add unique (id)", "planted_id_key", "unique index"),
        (f"{TABLE}; create unique index on planted (id)", "planted_id_idx", "unique index"),
        (
            f"{TABLE}; create unique index on planted (id) include (org_id)",
            "planted_id_org_id_idx",
            "unique index",
        ),
        (
            f"{TABLE}; alter table planted add foreign key (id) references target",
            "planted.planted_id_fkey",
            "foreign key",
        ),
        (
            f"{TABLE}; {FUNCTION}; create trigger planted after delete on planted {EXECUTE}",
            "planted.planted",
            "trigger",
        ),
        (
            f"{TABLE}; alter table planted alter id set default gen_random_uuid()",
            "planted.id",
            "gen_random_uuid",
        ),
        (
            "create function planted() returns integer language sql security definer as 'select 1'",
            "planted",
            "rights of its owner",
        ),
    ],
)
def test_schema_check_reports_a_planted_violation_in_the_schema(
    connection: psycopg.Connection, planted: str, name: str, rule: str
) -> None:
    connection.execute("create table target (id uuid primary key)")
    connection.execute(planted.encode())
    violations = check_schema(connection, read_catalog(connection))
    assert [item for item in violations if item.name == name and rule in item.rule]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("select name from plan", "org of plan"),
        ("select name from plan where id = %(id)s", "org of plan"),
        ("select 1 from plan p join run r on r.id = p.id where p.org_id = %(org)s", "org of run"),
        ("select 1 from plan p, run r where p.org_id = %(org)s", "org of run"),
        ("select (select name from run r where r.id = p.id) from plan p where p.org_id = 1", "run"),
        ("select 1 from plan where org_id = 1 union select 1 from plan", "org of plan"),
        ("update plan set name = 'x' where id = %(id)s", "org of plan"),
        ("delete from plan p using source s where p.org_id = %(org)s", "org of source"),
        ("with p as (delete from plan) select 1", "org of plan"),
        ("update plan set at = app_now() where org_id = %(org)s", "volatile app_now"),
        ("delete from plan where org_id = %(org)s and random() < 1", "volatile random"),
        ("select name from plan where org_id = app_org()", "not with the parameter"),
        ("insert into plan (id) select r.id from run r where r.org_id = %(org)s", "column org_id"),
        (
            "with r as (delete from run where org_id = %(org)s) insert into plan (org_id) select 1",
            "another change",
        ),
        ("insert into plan (x) values (1) on conflict do update set x = y[1:8]", "array slice"),
        ("update plan set at = at - interval '1 day' where org_id = %(org)s", "an interval"),
        ("delete from plan p where org_id = %(org)s and p.at + interval '1 h' < %(t)s", "interval"),
    ],
)
def test_schema_check_reports_a_planted_violation_in_a_query(text: str, rule: str) -> None:
    (violation,) = check_queries({"planted": text}, CATALOG)
    assert rule in violation.rule


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("alter table {table} enable row level security; drop table {table};", "several"),
        ("set local timezone = 'UTC'; create table x (y text default ';')", "several"),
        ("select set_config('app.org_id', %(org_id)s, true)", "set_config"),
    ],
)
def test_schema_check_reports_a_planted_violation_in_an_owner_query(text: str, rule: str) -> None:
    (violation,) = check_queries({"maintenance/planted": text}, CATALOG)
    assert rule in violation.rule


@pytest.mark.parametrize(
    "text",
    [
        "select name from plan where org_id = %(org)s::uuid",
        "select name from plan p where %(org)s = p.org_id for update of p",
        "select app_now() from plan where org_id = %(org)s for no key update",
        "select 1 from plan p join run r on r.org_id = p.org_id where p.org_id = %(org)s",
        "select 1 from plan p join run r using (org_id, id) where p.org_id = %(org)s",
        "insert into plan (id) values (%(id)s) on conflict (org_id, id) do update set n = 1",
        "delete from plan where org_id = %(org)s and at < %(t)s::timestamptz - interval '1 h'",
        "select 1",
    ],
)
def test_schema_check_accepts_query_that_filters_every_table_by_org(text: str) -> None:
    assert [*check_queries({"q": text}, CATALOG)] == []


@pytest.mark.parametrize(
    "text",
    [
        "do $$ begin alter table x add y text; drop table z; end $$;",
        "set local timezone = 'UTC'; set local lock_timeout = '30s';",
        "set local app.org_id = {value};",
    ],
)
def test_schema_check_accepts_owner_statements_that_citus_nodes_can_run(text: str) -> None:
    assert [*check_queries({"maintenance/q": text}, CATALOG)] == []


@pytest.mark.parametrize("statement", REFUSED)
def test_schema_check_reports_migrations_that_citus_refuses(statement: str) -> None:
    planted = Migration(99, "planted", f"create index planted on run (org_id);\n{statement};")
    assert list(check_migrations([planted])) == [("0099_planted", REFUSED[statement])]


def test_schema_check_reports_set_config_in_a_migration_function() -> None:
    body = "begin perform set_config('app.org_id', one_org::text, true); end"
    planted = Migration(99, "planted", f"do $$ {body} $$")
    assert list(check_migrations([planted])) == [
        ("0099_planted", "set_config does not reach the nodes; use set local")
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "alter table run add column a integer, add column stall_check integer",
        "alter table run add column a integer constraint positive check (a > 0)",
        "alter table run add check (status in ('open', 'closed'))",
        "-- Not set_config('app.org_id', '', true)\nset local app.org_id = ''",
        "create index planted on run (org_id, name)",
        "drop index run_awaiting",
    ],
)
def test_schema_check_accepts_migrations_that_citus_executes(statement: str) -> None:
    assert list(check_migrations([Migration(99, "planted", statement)])) == []
