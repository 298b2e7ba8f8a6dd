"""Helpers for backup tests: a database with rows in every table, its copy, and comparisons."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
from psycopg import sql

from belongings import belongings, everything
from erasures import add_user, erased
from servers import Place, Server, fresh_place
from waybook.app.operations.anchors import open_anchors
from waybook.app.operations.private_file import private_file
from waybook.app.request.services import Services
from waybook.store.driver.ids import new_id
from waybook.store.maintenance import backup, restore
from waybook.store.maintenance.anchors import Anchor
from waybook.store.maintenance.archive import Manifest, open_archive
from waybook.store.maintenance.org_tables import org_tables
from worlds import World, a_database, check_audit

#: Deliberately not in a backup.
LEFT_OUT = {"web_session", "passage_embedding", "passage_deletion", "passage_quarantine"}


async def fill(world: World) -> None:
    """Insert rows into every table: two active orgs, an erased user, tokens, notifications."""
    await everything(world.agent)
    await belongings(world)
    await add_user(world.place, world.agent, "eve")
    await add_user(world.place, world.agent, "mallory")
    await erased(world, world.agent, "mallory")
    _add_notice(world.place, world.agent.org_id)


def _add_notice(place: Place, org_id: UUID) -> None:
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            """insert into webhook_delivery (org_id, id, event, data, at, due_at, expires_at)
               values (%s, %s, 'plan.completed', '{"a": "\\t\\n \\\\ é"}', now(), now(), now())""",
            (org_id, new_id()),
        )


def back_up(place: Place, path: Path) -> Manifest:
    with private_file(path, force=True) as file:
        return backup.back_up(place.owner_dsn, file, lambda *_: None)


def restore_into(place: Place, path: Path) -> None:
    with open_archive(path) as archive:
        restore.restore(place.owner_dsn, archive, lambda *_: None)


@contextmanager
def empty_database(server: Server) -> Iterator[Place]:
    """Yield a database that was never migrated."""
    with fresh_place(server, template="template0") as place:
        yield place


def all_rows(place: Place, *, generated: bool = True) -> dict[str, list[str]]:
    """Return every row of every table as text, as seen by an administrator."""
    rows_by_table = {}
    with psycopg.connect(place.admin_dsn, options="-c timezone=UTC") as admin:
        for table in org_tables(admin):
            stored = sql.SQL(", ").join(map(sql.Identifier, table.columns))
            expression = sql.SQL("t") if generated else sql.SQL("row({})").format(stored)
            query = sql.SQL("select {}::text from {} t order by 1")
            rows = admin.execute(query.format(expression, sql.Identifier(table.name)))
            rows_by_table[table.name] = [str(row) for (row,) in rows]
    return {name: rows for name, rows in rows_by_table.items() if rows and name not in LEFT_OUT}


def anchored(path: Path) -> list[Anchor]:
    with open_anchors(path) as anchors:
        return [*anchors]


def orgs_of(place: Place) -> list[UUID]:
    with psycopg.connect(place.admin_dsn) as admin:
        rows = admin.execute("select org_id from org union select org_id from erasure")
        return [org_id for (org_id,) in rows]


async def check_audit_of(place: Place) -> None:
    """Verify every chain of every org of a database."""
    async with a_database(place) as database:
        await check_audit(Services(database=database, skills=()), *orgs_of(place))
