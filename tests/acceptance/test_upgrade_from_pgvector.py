"""Upgrade of a data directory in which an earlier version stored vectors with pgvector."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from background_rounds import index_all
from embedded_postgres.data_directories import (
    make_data_directory,
    remove_data_directory,
    server_home,
)
from pgvector import usable_server
from run_place import run_directory
from waybook.accounts.model import LOCAL_ORG
from waybook.bootstrap import start_application
from waybook.core.decision_context import Channel
from waybook.embedded_postgres.supervisor import attach
from waybook.settings_reading import read_settings
from waybook.store.maintenance import migrate as migrations
from waybook.store.maintenance.migrate import bundled_migrations, migrate

#: Number of the last migration of the version that stored vectors with pgvector.
LAST_BEFORE = 12

PASSAGE = """
set app.org_id = '{org}';
insert into passage (subject, subject_id, part, kind, title, body, created_at)
values ('artifact', '01890000-0000-7000-8000-000000000001', 1, 'note', 'bees',
        'A returning forager tells the direction of flowers by dancing on the comb.', now());
insert into artifact (id, kind, title, content, created_at, created_by, audit_seq, audit_hash)
values ('01890000-0000-7000-8000-000000000001', 'note', 'bees', '"A forager."', now(), 'ann', 0,
        '');
"""
#: SQL that is executed only if the pgvector extension can run, because otherwise writing a vector
#: crashes the server.
VECTOR = """
insert into passage_vector (org_id, subject_id, part, model, embedding)
select org_id, subject_id, part, 'static-1', array_fill(0.05, array[288])::halfvec from passage;
"""


@pytest.fixture
def old_data_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a data directory of the version with pgvector, with its server still running."""
    with make_data_directory(parent=run_directory()) as place:
        data_dir = place / "data"
        with attach(data_dir) as attachment:
            with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
                admin.execute("create extension vector")
            before = [
                migration for migration in bundled_migrations() if migration.number <= LAST_BEFORE
            ]
            with monkeypatch.context() as patch:
                patch.setattr(migrations, "bundled_migrations", lambda: before)
                migrate(attachment.owner_dsn)
            with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
                admin.execute(PASSAGE.format(org=LOCAL_ORG).encode())
                if usable_server()[0] == "18":
                    admin.execute(VECTOR.encode())
                assert left_behind(admin) == (True, True)
            yield data_dir


def left_behind(admin: psycopg.Connection) -> tuple[bool, bool]:
    """Return whether the pgvector extension exists, and whether its table exists."""
    query = """select exists (select from pg_extension where extname = 'vector'),
                      to_regclass('passage_vector') is not null"""
    return tuple(admin.execute(query.encode()).fetchall()[0])


async def search_after_upgrade(data_dir: Path) -> None:
    """Check that semantic search finds content stored before and after the upgrade."""
    settings = read_settings({"data_dir": str(data_dir), "sweep_seconds": "0"}, {}).settings
    async with start_application(settings, sweeping=False) as system:
        caller = system.caller(Channel.CLI)
        bread = {"kind": "note", "title": "bread", "content": "Wheat flour, water and yeast."}
        for name, arguments in (
            ("store_research", bread),
            ("store_research", {**bread, "content": "Wheat flour, water, salt and yeast."}),
        ):
            assert not (await system.dispatcher.dispatch(caller, name, arguments)).is_error
        await index_all(system.dispatcher.services)
        queries = {"insects pointing to blossoms": "bees", "ingredients of a loaf": "bread"}
        for query, title in queries.items():
            reply = await system.dispatcher.dispatch(caller, "search_sources", {"query": query})
            hits: Any = reply.body["hits"]
            assert hits[0]["title"] == title
            assert [why["by"] for why in hits[0]["why"]] == ["meaning"]


async def test_search_finds_old_content_after_upgrade_from_pgvector(
    old_data_dir: Path,
) -> None:
    await search_after_upgrade(old_data_dir)
    with (
        attach(old_data_dir) as attachment,
        psycopg.connect(attachment.admin_dsn) as admin,
    ):
        assert left_behind(admin)[1] is False


async def test_stopped_server_with_pgvector_is_upgraded_at_next_start(
    old_data_dir: Path,
) -> None:
    # The earlier version had different bootstrap statements, so the server must run those of this
    # version when it starts.
    remove_data_directory(old_data_dir)
    server_home(old_data_dir).bootstrapped.write_bytes(b"of an earlier version")
    with (
        attach(old_data_dir) as attachment,
        psycopg.connect(attachment.admin_dsn) as admin,
    ):
        assert left_behind(admin) == (False, False)
    await search_after_upgrade(old_data_dir)
