"""What stands in the database of a world: whether it was touched, and what keeps it apart."""

import psycopg
from psycopg import sql

from servers import Place
from worlds import World

#: Calls are noted, whatever comes of them.
NOTED = "mcp_tool_call_log"
TABLES = b"select relname from pg_class where relrowsecurity and not relispartition"


def rows(world: World) -> dict[str, str]:
    """The rows of both orgs, as a hash for each table."""
    hashed = sql.SQL(
        "select md5(string_agg(t::text, ' ' order by t::text)) from {} t where org_id = any (%s)"
    )
    orgs = [world.agent.org_id, world.neighbour.org_id]
    with psycopg.connect(world.place.admin_dsn) as admin:
        tables = [name for (name,) in admin.execute(TABLES) if name != NOTED]
        asked = {table: hashed.format(sql.Identifier(table)) for table in tables}
        return {table: admin.execute(one, [orgs]).fetchall()[0][0] for table, one in asked.items()}


def without_row_level_security(place: Place) -> None:
    """Take the walls away, to see what they hold."""
    with psycopg.connect(place.owner_dsn, autocommit=True) as owner:
        for (table,) in owner.execute(
            b"select relname from pg_class where relrowsecurity"
        ).fetchall():
            off = sql.SQL("alter table {} disable row level security")
            owner.execute(off.format(sql.Identifier(table)))
