"""Hashes of the rows of a test database, and a function that disables row-level security."""

import psycopg
from psycopg import sql

from org_env import OrgEnv
from postgres_servers import ServerDatabase

#: Tables to which even a refused call writes.
NOTED = ("mcp_tool_call_log",)
TABLES = b"select relname from pg_class where relrowsecurity and not relispartition"


def rows(world: OrgEnv) -> dict[str, str]:
    hashed = sql.SQL(
        "select md5(string_agg(t::text, ' ' order by t::text)) from {} t where org_id = any (%s)"
    )
    orgs = [world.agent.org_id, world.other_org.org_id]
    with psycopg.connect(world.place.admin_dsn) as admin:
        tables = [name for (name,) in admin.execute(TABLES) if name not in NOTED]
        queries = {table: hashed.format(sql.Identifier(table)) for table in tables}
        return {
            table: admin.execute(query, [orgs]).fetchall()[0][0] for table, query in queries.items()
        }


def without_row_level_security(place: ServerDatabase) -> None:
    with psycopg.connect(place.owner_dsn, autocommit=True) as owner:
        for (table,) in owner.execute(
            b"select relname from pg_class where relrowsecurity"
        ).fetchall():
            off = sql.SQL("alter table {} disable row level security")
            owner.execute(off.format(sql.Identifier(table)))
