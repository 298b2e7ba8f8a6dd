"""Helpers for backup tests, which fill, copy and compare databases."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import psycopg
from psycopg import sql

from erasure_checks import add_user, erased
from foreign_records import all_foreign_records, create_foreign_records
from org_env import OrgEnv, check_audit, open_test_database
from postgres_servers import Server, ServerDatabase, new_database
from waybook.app.operations.anchors import open_anchors
from waybook.app.operations.private_file import private_file
from waybook.app.request.services import Services
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance import backup, restore
from waybook.store.maintenance.anchors import Anchor
from waybook.store.maintenance.archive import Manifest, open_archive
from waybook.store.maintenance.backup import org_tables

#: Tables that backups leave out on purpose.
LEFT_OUT = {"web_session", "passage_embedding", "passage_deletion", "passage_quarantine"}


async def fill(world: OrgEnv) -> None:
    """Insert rows into every table: two orgs with work, an erased user, tokens, notifications."""
    await all_foreign_records(world.agent)
    await create_foreign_records(world)
    await add_user(world.place, world.agent, "eve")
    await add_user(world.place, world.agent, "mallory")
    await erased(world, world.agent, "mallory")
    _add_notice(world.place, world.agent.org_id)


def _add_notice(place: ServerDatabase, org_id: UUID) -> None:
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            """insert into webhook_delivery (org_id, id, event, data, at, due_at, expires_at)
               values (%s, %s, 'plan.completed', '{"a": "\\t\\n \\\\ é"}', now(), now(), now())""",
            (org_id, new_uuid()),
        )


def back_up(place: ServerDatabase, path: Path) -> Manifest:
    with private_file(path, force=True) as file:
        return backup.back_up(place.owner_dsn, file, lambda *_: None)


def restore_into(place: ServerDatabase, path: Path) -> None:
    with open_archive(path) as archive:
        restore.restore(place.owner_dsn, archive, lambda *_: None)


@contextmanager
def empty_database(server: Server) -> Iterator[ServerDatabase]:
    with new_database(server, template="template0") as place:
        yield place


def all_rows(place: ServerDatabase, *, generated: bool = True) -> dict[str, list[str]]:
    """Return every row of every table as text, as a superuser sees them."""
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


def orgs_of(place: ServerDatabase) -> list[UUID]:
    with psycopg.connect(place.admin_dsn) as admin:
        rows = admin.execute("select org_id from org union select org_id from erasure")
        return [org_id for (org_id,) in rows]


async def check_audit_of(place: ServerDatabase) -> None:
    async with open_test_database(place) as database:
        await check_audit(Services(database=database), *orgs_of(place))
