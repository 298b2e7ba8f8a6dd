"""Isolation of orgs by row-level security, without loopholes in the system catalog.

`test_schema.py` checks the properties of every table. This file checks that no view, trigger or
other object bypasses row-level security, and that the database role of the server cannot access
rows of another org.
"""

from string import Template
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from auth_env import make_token
from erasure_checks import erased
from foreign_records import all_foreign_records
from org_env import NOON, AgentClient, OrgEnv
from postgres_servers import ServerDatabase
from waybook.store import deliveries
from waybook.store.driver.queries import AsJson, Query, Statement, new_uuid
from waybook.store.maintenance.migrate import APP_ROLE

ORG = "(org_id = app_org())"
#: Policies that make rows of other orgs visible, with the reasons; no other policy may do this.
EXCEPTIONS = {
    # The background tasks visit all orgs, so they must see the ids of the orgs, but nothing else.
    ("org", "tenant"): f"({ORG} OR (current_setting('app.sweep'::text, true) = 'on'::text))",
    # The background tasks also see the time, actor and counts of the erasures in all orgs.
    ("erasure", "tenant"): f"({ORG} OR (current_setting('app.sweep'::text, true) = 'on'::text))",
}
#: Policies of credentials. The org of a credential is not known before the lookup, so a caller sees
#: the row whose hash the caller has set, and no other.
BY_HASH = {
    (table, "bearer", "(hash = app_secret_hash())", None, "SELECT", "PERMISSIVE", "{public}")
    for table in ("access_link", "api_token", "web_session")
}
#: Table of the applied migrations, which belongs to no org. The server can only read it.
OUTSIDE = {"schema_migration"}
#: Default values that columns may have: the org, the time or a constant, but no counter.
DEFAULTS = {
    *("app_org()", "app_statement_time()", "app_transaction()", "now()", "false", "0"),
    *("'[]'::json", "'waiting'::text", "'relayed'::text"),
}
#: Tables in which the server may update rows, and tables in which it may delete rows. To all other
#: tables, it can only add rows.
MAY_UPDATE = {
    *("plan", "plan_step", "step_brief", "branching_condition", "review", "skill_execution"),
    *("run", "stage_run", "stage_step", "job", "webhook_delivery", "passage_quarantine", "agent"),
    *("work_cap", "work_reservation", "worker"),
}
MAY_DELETE = {
    *("plan_step", "step_brief", "branching_condition", "webhook_delivery", "passage"),
    *("work_reservation", "worker"),
}
#: Columns of other tables that the server may update.
COLUMNS = [
    *(("access_link", name) for name in ("revoked_at", "revoked_by")),
    *(("api_token", name) for name in ("last_used_at", "revoked_at", "revoked_by")),
    *(("comment", name) for name in ("resolved_at", "resolved_by")),
    *(("org", name) for name in ("audit_hash", "audit_seq", "name", "review_policy")),
    *(("org_user", name) for name in ("disabled_at", "scopes")),
    *(("web_session", name) for name in ("ended_at", "last_seen_at")),
]

WORDS = {
    "ours": "c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')",
    "extensions": "(select objid from pg_depend where deptype = 'e')",
    "app": APP_ROLE,
}
PARTITIONS = "select c.relname from pg_class c where $ours and c.relispartition"


def ask(connection: psycopg.Connection, question: str, **words: str) -> list[tuple[object, ...]]:
    query = Template(question).substitute(WORDS | words)
    return connection.execute(query.encode()).fetchall()


def names(connection: psycopg.Connection, question: str, **words: str) -> set[str]:
    return {str(row[0]) for row in ask(connection, question, **words)}


def tables(connection: psycopg.Connection) -> set[str]:
    return names(connection, "select c.relname from pg_class c where $ours") - OUTSIDE


def test_rls_policies_allow_only_own_org_except_in_listed_cases(
    catalog: psycopg.Connection,
) -> None:
    policies = ask(
        catalog,
        "select tablename, policyname, qual, with_check, cmd, permissive, roles::text"
        "  from pg_policies where schemaname = 'public'",
    )
    expected = {
        (table, "tenant", EXCEPTIONS.get((table, "tenant"), ORG), ORG, *("ALL", "PERMISSIVE"))
        for table in tables(catalog)
    }
    public_policies = {(*row, "{public}") for row in expected}
    assert set(policies) == public_policies | BY_HASH


def test_all_relations_are_in_public_schema(catalog: psycopg.Connection) -> None:
    elsewhere = ask(
        catalog,
        """select c.oid::regclass::text from pg_class c
            where c.relnamespace not in ('public'::regnamespace, 'pg_catalog'::regnamespace,
                                         'information_schema'::regnamespace,
                                         'pg_toast'::regnamespace)""",
    )
    assert elsewhere == []


def test_public_schema_contains_only_tables_and_indexes(catalog: psycopg.Connection) -> None:
    kinds = ask(
        catalog,
        """select c.relkind::text, c.relname from pg_class c
            where c.relnamespace = 'public'::regnamespace
              and c.relkind not in ('r', 'p', 'i', 'I')""",
    )
    # A view would have the rights of its owner, and a sequence would be shared by all orgs.
    assert kinds == []


def test_database_has_no_rules_and_no_triggers(catalog: psycopg.Connection) -> None:
    assert ask(catalog, "select evtname from pg_event_trigger") == []
    assert ask(catalog, "select tgname from pg_trigger where not tgisinternal") == []
    rules = """select r.rulename from pg_rewrite r join pg_class c on c.oid = r.ev_class
                where c.relnamespace = 'public'::regnamespace"""
    assert ask(catalog, rules) == []


def test_public_schema_has_only_known_functions_without_definer_rights(
    catalog: psycopg.Connection,
) -> None:
    functions = ask(
        catalog,
        """select p.proname, p.prosecdef, l.lanname, p.proconfig::text
              from pg_proc p join pg_language l on l.oid = p.prolang
             where p.pronamespace = 'public'::regnamespace
               and p.oid not in $extensions
             order by 1""",
    )
    languages = {
        "plpgsql": {
            *("is_event", "is_job", "is_plan", "is_step"),
            *("json_words", "name_words", "refuse_unless"),
            *("statement_time", "words"),
        },
        "sql": {"name_parts", "now", "org", "secret_hash", "transaction"},
    }
    assert functions == sorted(
        (f"app_{name}", False, language, None)
        for language, short_names in languages.items()
        for name in short_names
    )


def test_database_has_no_security_definer_function(catalog: psycopg.Connection) -> None:
    assert ask(catalog, "select proname from pg_proc where prosecdef") == []


def test_column_defaults_use_only_allowed_expressions(catalog: psycopg.Connection) -> None:
    expressions = names(
        catalog,
        """select pg_get_expr(d.adbin, d.adrelid)
              from pg_attrdef d
              join pg_class c on c.oid = d.adrelid
              join pg_attribute a on a.attrelid = c.oid and a.attnum = d.adnum
             where $ours and a.attgenerated = ''""",
    )
    assert expressions <= DEFAULTS
    counted = """select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid
                   where $ours and a.attidentity <> ''"""
    assert ask(catalog, counted) == []


def test_every_table_has_not_null_org_id_as_first_column(catalog: psycopg.Connection) -> None:
    having = names(
        catalog,
        """select c.relname from pg_attribute a join pg_class c on c.oid = a.attrelid
             where $ours and a.attname = 'org_id' and a.attnum = 1 and a.attnotnull
               and a.atttypid = 'uuid'::regtype""",
    )
    assert having == tables(catalog)


def test_server_database_role_may_log_in_only_with_separate_owner_url(
    catalog: psycopg.Connection, shared_place: ServerDatabase
) -> None:
    ((may_log_in,),) = ask(catalog, "select rolcanlogin from pg_roles where rolname = '$app'")
    # With only one database URL, the server logs in as the user of this URL and then switches to
    # its own role, which needs no login for this.
    assert may_log_in is (shared_place.server.role is None)


def test_server_database_role_has_no_settings(catalog: psycopg.Connection) -> None:
    settings = "select setconfig from pg_db_role_setting where setrole = '$app'::regrole"
    assert ask(catalog, settings) == []


def test_table_privileges_belong_only_to_owner_and_server_database_role(
    catalog: psycopg.Connection, shared_place: ServerDatabase
) -> None:
    grantees = names(
        catalog,
        """select coalesce(nullif(x.grantee, 0)::regrole::text, 'PUBLIC')
              from pg_class c, aclexplode(c.relacl) x
             where $ours and c.oid not in $extensions""",
    )
    assert grantees == {shared_place.server.owner, APP_ROLE}
    of_columns = """select c.relname, a.attname from pg_attribute a
                       join pg_class c on c.oid = a.attrelid
                      where $ours and a.attacl is not null"""
    assert sorted(ask(catalog, of_columns)) == COLUMNS
    assert ask(catalog, "select defaclobjtype from pg_default_acl") == []


def test_server_database_role_cannot_create_objects_in_schema_or_database(
    catalog: psycopg.Connection,
) -> None:
    query = """select has_schema_privilege('$app', 'public', 'create'),
                      has_database_privilege('$app', current_database(), 'create')"""
    assert ask(catalog, query) == [(False, False)]


def test_server_database_role_can_update_and_delete_only_in_listed_tables(
    catalog: psycopg.Connection,
) -> None:
    held = """select c.relname from pg_class c
               where $ours and has_table_privilege('$app', c.oid, '$right')"""
    assert names(catalog, held, right="update") == MAY_UPDATE
    assert names(catalog, held, right="delete") == MAY_DELETE
    for never in ("truncate", "references", "trigger"):
        assert names(catalog, held, right=never) == set(), never
    assert "audit_entry" not in MAY_UPDATE | MAY_DELETE
    # The server may read partitions only through their parent table.
    partitions = names(catalog, PARTITIONS)
    readable = tables(catalog) - partitions | {"schema_migration"}
    assert names(catalog, held, right="select") == readable


@pytest.fixture
async def both(world: OrgEnv) -> OrgEnv:
    """Return a test environment in which both orgs have rows in every table."""
    world.other_org_may_change = True
    for agent in (world.agent, world.other_org):
        await all_foreign_records(agent)
        browser = await make_browser(agent)
        async with world.database.org_transaction(agent.org_id) as tx:
            await tx.commit(make_delivery(), browser)
        await agent.acting_as("gone").plan()
        await erased(world, agent, "gone")
    return world


def make_delivery() -> Statement:
    """Return a statement that inserts a notification which was not delivered yet."""
    named = {"id": new_uuid(), "event": "plan.failed", "subject_id": new_uuid()}
    return deliveries.SQL["insert_delivery"](**named, data=AsJson({}), at=NOON, expires_at=NOON)


A_SESSION = Query(
    "a_session",
    """insert into web_session (id, user_id, token_id, hash, created_at, last_seen_at, expires_at)
       values (%(id)s, %(user)s, %(token)s, sha256(%(id)s::uuid::text::bytea),
               app_now(), app_now(), app_now())""",
)


async def make_browser(agent: AgentClient) -> Statement:
    """Create a user with a token; return a statement that inserts a web session of this user."""
    issued = await make_token(agent)
    return A_SESSION(user=issued.user.id, token=issued.token.id, id=new_uuid())


def as_serving(world: OrgEnv, connection: psycopg.Connection, org_id: UUID) -> None:
    if world.place.server.role:
        connection.execute(f"set local role {world.place.server.role}".encode())
    connection.execute(f"set local app.org_id = '{org_id}'".encode())


def counts(connection: psycopg.Connection, shown: set[str]) -> dict[str, dict[str, int]]:
    """Return the number of visible rows of each org, by table."""
    count = sql.SQL("select org_id::text, count(*) from {} group by 1")
    return {
        table: dict(connection.execute(count.format(sql.Identifier(table))).fetchall())
        for table in shown
    }


async def test_server_database_role_sees_only_own_org_rows_in_every_table(
    both: OrgEnv, catalog: psycopg.Connection
) -> None:
    shown = tables(catalog) - names(catalog, PARTITIONS)
    there = counts(catalog, shown)
    orgs = str(both.agent.org_id), str(both.other_org.org_id)
    assert {table for table in shown if not set(orgs) <= set(there[table])} == set()
    with psycopg.connect(both.place.app_dsn) as connection:
        for org_id in (both.agent.org_id, both.other_org.org_id):
            with connection.transaction():
                as_serving(both, connection, org_id)
                seen = counts(connection, shown)
            assert seen == {table: {str(org_id): there[table][str(org_id)]} for table in shown}


async def test_server_database_role_cannot_update_or_delete_rows_of_another_org(
    both: OrgEnv, catalog: psycopg.Connection
) -> None:
    before = counts(catalog, tables(catalog))
    theirs = both.other_org.org_id
    touch = sql.SQL("update {0} set org_id = org_id where org_id = {1}")
    touch_column = sql.SQL("update {0} set {1} = {1} where org_id = {2}")
    drop = sql.SQL("delete from {0} where org_id = {1}")
    with psycopg.connect(both.place.app_dsn, autocommit=True) as connection:
        for table in sorted(MAY_UPDATE):
            assert _tried(both, connection, touch.format(sql.Identifier(table), theirs)) == 0
        for table in sorted(MAY_DELETE):
            assert _tried(both, connection, drop.format(sql.Identifier(table), theirs)) == 0
        for table, column in COLUMNS:
            named = sql.Identifier(table), sql.Identifier(column)
            assert _tried(both, connection, touch_column.format(*named, theirs)) == 0
    assert counts(catalog, tables(catalog)) == before


async def test_server_database_role_cannot_move_rows_to_another_org(
    both: OrgEnv, catalog: psycopg.Connection
) -> None:
    before = counts(catalog, tables(catalog))
    theirs = both.other_org.org_id
    move = sql.SQL("update {0} set org_id = {1}")
    with psycopg.connect(both.place.app_dsn, autocommit=True) as connection:
        for table in sorted(MAY_UPDATE):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                _tried(both, connection, move.format(sql.Identifier(table), theirs))
    assert counts(catalog, tables(catalog)) == before


async def test_server_database_role_cannot_insert_rows_for_another_org(
    both: OrgEnv, catalog: psycopg.Connection
) -> None:
    insertable = names(
        catalog,
        """select c.relname from pg_class c
             where $ours and has_table_privilege('$app', c.oid, 'insert')""",
    )
    add = sql.SQL("insert into {0} (org_id) values ({1})")
    with psycopg.connect(both.place.app_dsn, autocommit=True) as connection:
        for table in sorted(insertable):
            statement = add.format(sql.Identifier(table), both.other_org.org_id)
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                _tried(both, connection, statement)


def _tried(world: OrgEnv, connection: psycopg.Connection, statement: sql.Composed) -> int:
    """Try a statement as the first org, and roll back; return how many rows it affected."""
    with connection.transaction(force_rollback=True):
        as_serving(world, connection, world.agent.org_id)
        return connection.execute(statement).rowcount
