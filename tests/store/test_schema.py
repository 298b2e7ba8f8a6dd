"""System catalog: permissions of the server's database role, and keys that begin with the org."""

import re
from collections.abc import Iterator
from string import Template

import psycopg
import pytest

from postgres_servers import ServerDatabase
from waybook.accounts.model import LOCAL_ORG
from waybook.store.maintenance.migrate import APP_ROLE

#: Table of the applied migrations, which belongs to no org. The server can only read it.
OUTSIDE = {"schema_migration"}

#: Unique keys that are not limited to an org. Slugs must be unique, because requests name an org by
#: its slug. Only the database owner can write slugs, so callers cannot try out which slugs exist.
ACROSS_ORGS = {"org_slug_key"}
#: Indexes with the org in a later column. With the org in the first column, PostgreSQL without
#: statistics might use the index for a lookup by id, and read all rows of the org.
ORG_NOT_FIRST_UNIQUE = {"document_place", "plan_step_place"}
ORG_NOT_FIRST = ORG_NOT_FIRST_UNIQUE | {"job_of_run", "plan_creator", "plan_status"}

#: Tables of credentials. The org of a credential is not known before the lookup, so a row is found
#: by its hash, and only this row is visible.
BY_HASH = {"access_link", "api_token", "web_session"}


@pytest.fixture
def serving(shared_place: ServerDatabase) -> Iterator[psycopg.Connection]:
    """Yield a connection with the database role of the server, and with no org set."""
    with psycopg.connect(shared_place.app_dsn, autocommit=True) as connection:
        if shared_place.server.role:
            connection.execute(f"set role {shared_place.server.role}".encode())
        yield connection


TABLES = "c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"


def ask(connection: psycopg.Connection, question: str, **words: str) -> list[tuple[object, ...]]:
    """Return the rows of a query, in which `$name` placeholders are replaced."""
    query = Template(question).substitute(tables=TABLES, app=APP_ROLE, **words)
    return connection.execute(query.encode()).fetchall()


def tables(catalog: psycopg.Connection) -> set[str]:
    rows = ask(catalog, "select c.relname from pg_class c where $tables")
    return {str(row[0]) for row in rows} - OUTSIDE


def test_every_table_and_partition_forces_row_level_security(catalog: psycopg.Connection) -> None:
    unguarded = ask(
        catalog,
        """select c.relname from pg_class c
             where $tables and not (c.relrowsecurity and c.relforcerowsecurity)""",
    )
    assert {str(row[0]) for row in unguarded} == OUTSIDE


def test_server_database_role_has_no_special_attributes_or_memberships(
    catalog: psycopg.Connection,
) -> None:
    (role,) = ask(
        catalog,
        """select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication,
                   (select count(*) from pg_auth_members m where m.member = r.oid)
              from pg_roles r where rolname = '$app'""",
    )
    assert role == (False, False, False, False, False, 0)


def test_server_database_role_owns_no_database_objects(catalog: psycopg.Connection) -> None:
    owned = ask(
        catalog,
        """select c.relname from pg_class c where c.relowner = '$app'::regrole
             union all
            select p.proname from pg_proc p where p.proowner = '$app'::regrole
             union all
            select d.datname from pg_database d where d.datdba = '$app'::regrole""",
    )
    assert owned == []


def test_primary_keys_and_unique_indexes_start_with_org_id(catalog: psycopg.Connection) -> None:
    others = ask(
        catalog,
        """select i.indexrelid::regclass::text
              from pg_index i
              join pg_class c on c.oid = i.indrelid
              join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
             where $tables and c.relname <> 'schema_migration'
               and (i.indisunique or i.indisprimary) and a.attname <> 'org_id'""",
    )
    assert {str(row[0]) for row in others} == ACROSS_ORGS | ORG_NOT_FIRST_UNIQUE


def test_btree_indexes_start_with_org_id(catalog: psycopg.Connection) -> None:
    others = ask(
        catalog,
        """select i.indexrelid::regclass::text
              from pg_index i
              join pg_class c on c.oid = i.indrelid
              join pg_am m on m.oid = (select relam from pg_class where oid = i.indexrelid)
              left join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
             where $tables and c.relname <> 'schema_migration'
               and m.amname = 'btree' and a.attname is distinct from 'org_id'""",
    )
    by_hash = {f"{table}_hash" for table in BY_HASH}
    assert {str(row[0]) for row in others} == ACROSS_ORGS | by_hash | ORG_NOT_FIRST


def test_indexes_not_starting_with_org_id_contain_org_id_later(catalog: psycopg.Connection) -> None:
    with_org = ask(
        catalog,
        """select i.indexrelid::regclass::text
              from pg_index i
              join pg_class c on c.oid = i.indrelid
              join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
             where $tables and a.attname = 'org_id'""",
    )
    assert {str(row[0]) for row in with_org} >= ORG_NOT_FIRST


def test_foreign_keys_start_with_org_id_in_both_tables(catalog: psycopg.Connection) -> None:
    others = ask(
        catalog,
        """select k.conname
             from pg_constraint k
             join pg_attribute a on a.attrelid = k.conrelid and a.attnum = k.conkey[1]
             join pg_attribute f on f.attrelid = k.confrelid and f.attnum = k.confkey[1]
            where k.contype = 'f' and k.connamespace = 'public'::regnamespace
              and not (a.attname = 'org_id' and f.attname = 'org_id')""",
    )
    assert others == []


def test_every_table_has_a_primary_key(catalog: psycopg.Connection) -> None:
    without = ask(
        catalog,
        """select c.relname from pg_class c
             where $tables and not exists (select from pg_index i
                                             where i.indrelid = c.oid and i.indisprimary)""",
    )
    assert without == []


def test_no_index_of_the_step_table_contains_the_status_column(catalog: psycopg.Connection) -> None:
    covering = ask(
        catalog,
        """select i.indexrelid::regclass::text
              from pg_index i
              join pg_class c on c.oid = i.indrelid
              join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
             where $tables and c.relname = 'plan_step' and a.attname = 'status'""",
    )
    assert covering == []


#: Statements that the server must not execute; `test_tenancy.py` checks permissions by table.
DENIED = [
    "update audit_entry set actor = 'me'",
    "truncate audit_entry",
    "insert into audit_entry_default select * from audit_entry",
    "delete from plan",
    "insert into org (org_id, slug) values (gen_random_uuid(), 'mine')",
    "update org set slug = 'mine'",
    "create table mine (a int)",
    "alter table plan no force row level security",
    "drop policy tenant on plan",
]


@pytest.mark.parametrize("statement", DENIED)
def test_statement_forbidden_to_server_database_role_raises_an_error(
    serving: psycopg.Connection, statement: str
) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        serving.execute(statement.encode())


def test_database_query_without_a_current_org_returns_no_rows(
    serving: psycopg.Connection, catalog: psycopg.Connection
) -> None:
    for table in sorted(tables(catalog)):
        # Skip partitions, because the server can read them only through their parent table.
        if not re.search(r"_default$|_\d{8}$", table):
            assert ask(serving, "select * from $table", table=table) == [], table


def test_current_org_of_a_connection_is_reset_after_the_transaction(
    serving: psycopg.Connection,
) -> None:
    with serving.transaction():
        serving.execute(f"set local app.org_id = '{LOCAL_ORG}'".encode())
        assert ask(serving, "select org_id from org") == [(LOCAL_ORG,)]
    assert ask(serving, "select org_id from org") == []


def test_database_owner_without_a_current_org_sees_no_rows(shared_place: ServerDatabase) -> None:
    with psycopg.connect(shared_place.owner_dsn, autocommit=True) as owner:
        assert ask(owner, "select * from org") == []


def test_background_task_for_stalls_can_list_orgs_but_read_no_plans(
    serving: psycopg.Connection,
) -> None:
    with serving.transaction():
        serving.execute(b"set local app.sweep = 'on'")
        assert (LOCAL_ORG,) in ask(serving, "select org_id from org")
        assert ask(serving, "select * from plan") == []
