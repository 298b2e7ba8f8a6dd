"""Backup of a database in use: the restored database has the same rows and a valid audit."""

import asyncio
import stat
import threading
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from backup.copies import (
    LEFT_OUT,
    all_rows,
    anchored,
    back_up,
    check_audit_of,
    empty_database,
    fill,
    restore_into,
)
from embedded_postgres.processes import eventually
from erasure_checks import ignore_progress, slug_of
from org_env import AgentClient, OrgEnv, make_env
from patience import PATIENCE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database
from sample_migrations import SAMPLE, bundle
from waybook.app.operations.anchors import check_anchor
from waybook.app.operations.erasure import erase_org
from waybook.app.operations.private_file import back_up as back_up_to
from waybook.app.operations.private_file import private_file
from waybook.app.request.request_context import RequestContext
from waybook.errors import InvalidInput, Misconfigured, Refused
from waybook.store.accounts.accounts import add_org
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance import backup, restore
from waybook.store.maintenance.backup import org_tables
from waybook.store.maintenance.migrate import (
    applied_migrations,
    bundled_migrations,
    migrate,
    owner_connection,
)


async def test_restored_backup_has_the_same_rows_in_every_table(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await fill(own_world)
    file = tmp_path / "backup.zip"
    manifest = back_up(own_world.place, file)
    with empty_database(own_world.place.server) as copy:
        restore_into(copy, file)
        before, after = all_rows(own_world.place), all_rows(copy)
        assert {*manifest.tables} - {*before} == set()
        assert after == before
        await check_audit_of(copy)
        again = tmp_path / "again.zip"
        back_up(copy, again)
        assert anchored(again) == anchored(file)


async def test_backup_taken_during_writes_restores_a_consistent_snapshot(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    """The backup stops in the middle, while two agents write more rows."""
    await fill(own_world)
    file = tmp_path / "backup.zip"
    started, written = threading.Event(), threading.Event()

    def wait_for_writers(*_: int) -> None:
        started.set()
        assert written.wait(PATIENCE_SECONDS)

    def run() -> None:
        with private_file(file, force=False) as target:
            backup.back_up(own_world.place.owner_dsn, target, wait_for_writers)

    async def work() -> list[str]:
        await asyncio.to_thread(started.wait, 30)
        made = []
        for agent in (own_world.agent, own_world.other_org):
            plan = await agent.plan()
            await agent.work_through(plan)
            made.append(plan["planId"])
        written.set()
        return made

    _, made = await asyncio.gather(asyncio.to_thread(run), work())
    with empty_database(own_world.place.server) as copy:
        restore_into(copy, file)
        await check_audit_of(copy)
        assert not {anchor.subject_id for anchor in anchored(file)} & {*made}
        assert all(made_id not in " ".join(all_rows(copy)["plan"]) for made_id in made)
    judge = RequestContext(services=own_world.dispatcher.services, caller=own_world.agent.caller)
    assert (await check_anchor(judge, file)).ok


async def test_backup_from_postgres_15_can_be_restored_on_postgres_18(
    fifteen: Server, eighteen: Server, tmp_path: Path
) -> None:
    file = tmp_path / "backup.zip"
    with new_database(fifteen) as old, empty_database(eighteen) as new:
        async with make_env(old) as world:
            await fill(world)
            back_up(old, file)
        restore_into(new, file)
        # Leave out generated columns, because server versions may compute different word stems.
        assert all_rows(new, generated=False) == all_rows(old, generated=False)
        await check_audit_of(new)


async def test_plan_can_be_completed_in_restored_database(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    plan = await own_world.agent.plan()
    file = tmp_path / "backup.zip"
    back_up(own_world.place, file)
    with empty_database(own_world.place.server) as copy:
        restore_into(copy, file)
        async with make_env(copy) as world:
            agent = AgentClient(world.dispatcher, own_world.agent.caller)
            assert (await agent.work_through(plan))["status"] == "plan_complete"


async def test_backup_of_erased_org_includes_records_of_the_erasure(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await own_world.agent.plan()
    place, file = own_world.place, tmp_path / "backup.zip"
    await erase_org(
        place.owner_dsn, slug_of(own_world.agent), by="operator", progress=ignore_progress
    )
    back_up(place, file)
    with empty_database(place.server) as copy:
        restore_into(copy, file)
        after = all_rows(copy)
        assert after == all_rows(place)
        assert after.keys() >= {"erasure", "tombstone"}


def test_restore_into_nonempty_database_is_refused_and_changes_nothing(
    own_place: ServerDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "backup.zip"
    back_up(own_place, file)
    add_org(own_place.owner_dsn, UUID(new_uuid()), "acme")
    before = all_rows(own_place)
    with pytest.raises(Refused, match=r"not empty \(rows: 1 in org\).*new database"):
        restore_into(own_place, file)
    assert all_rows(own_place) == before


def test_backup_of_older_schema_is_restored_and_migrated(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "backup.zip"
    with empty_database(server) as old, empty_database(server) as new:
        migrate(old.owner_dsn)
        add_org(old.owner_dsn, UUID(new_uuid()), "acme")
        bundle(monkeypatch, *bundled_migrations(), SAMPLE)
        manifest = back_up(old, file)
        assert manifest.migrations[-1][0] == SAMPLE.number - 1
        restore_into(new, file)
        assert all_rows(new) == all_rows(old)
        with owner_connection(new.owner_dsn) as connection:
            assert max(applied_migrations(connection)) == SAMPLE.number


def test_restoring_older_backup_into_migrated_database_is_refused(
    own_place: ServerDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "backup.zip"
    back_up(own_place, file)
    bundle(monkeypatch, *bundled_migrations(), SAMPLE)
    migrate(own_place.owner_dsn)
    with pytest.raises(Refused, match="restore into a new database"):
        restore_into(own_place, file)


def test_restoring_the_backup_of_an_earlier_build_raises_invalid_input() -> None:
    with pytest.raises(InvalidInput, match="earlier build of Waybook"):
        restore.check_migrations(((1, "plans", "a1"),))


def test_restoring_backup_of_newer_version_raises_invalid_input(
    own_place: ServerDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, ours = tmp_path / "backup.zip", bundled_migrations()
    bundle(monkeypatch, *ours, SAMPLE)
    migrate(own_place.owner_dsn)
    back_up(own_place, file)
    bundle(monkeypatch, *ours)
    with (
        empty_database(own_place.server) as copy,
        pytest.raises(InvalidInput, match="made by a newer Waybook"),
    ):
        restore_into(copy, file)


def test_backup_of_an_empty_database_suggests_the_migrate_command(
    server: Server, tmp_path: Path
) -> None:
    with empty_database(server) as old, pytest.raises(Misconfigured, match="waybook migrate"):
        back_up(old, tmp_path / "backup.zip")
    assert [*tmp_path.iterdir()] == []


def test_backup_file_is_private_and_is_not_overwritten(
    own_place: ServerDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "backup.zip"
    back_up(own_place, file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    with pytest.raises(InvalidInput, match="--force"), private_file(file, force=False) as target:
        target.write(b"another")
    assert file.read_bytes() == before
    assert [*tmp_path.iterdir()] == [file]


def test_backup_manifest_says_that_web_sessions_are_not_included(
    own_place: ServerDatabase, tmp_path: Path
) -> None:
    manifest = back_up(own_place, tmp_path / "backup.zip")
    assert manifest.left_out["web_session"] == "people sign in again"
    assert not {"web_session", "schema_migration"} & {*manifest.tables}


def test_backup_leaves_out_tables_with_types_of_a_database_extension(
    fifteen: Server, tmp_path: Path
) -> None:
    with new_database(fifteen) as place:
        with psycopg.connect(place.admin_dsn) as admin:
            admin.execute("create extension hstore")
            admin.execute("create table vectors (org_id uuid, single hstore)")
            admin.execute("create table lists (org_id uuid, several hstore[])")
            admin.execute("create table plain (org_id uuid, numbers real[])")
            for table in ("vectors", "lists", "plain"):
                admin.execute(f"alter table {table} owner to {fifteen.owner}".encode())
        manifest = back_up(place, tmp_path / "backup.zip")
    assert {"vectors", "lists", *LEFT_OUT} == manifest.left_out.keys()
    assert "plain" in manifest.tables


async def test_canceled_backup_leaves_no_file(own_world: OrgEnv, tmp_path: Path) -> None:
    await fill(own_world)
    reached, canceled = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    blocks: list[int] = []

    def wait(rows: int, *_: int) -> None:
        blocks.append(rows)
        loop.call_soon_threadsafe(reached.set)
        assert canceled.wait(PATIENCE_SECONDS)

    owner_dsn, file = own_world.place.owner_dsn, tmp_path / "backup.zip"
    task = asyncio.create_task(back_up_to(owner_dsn, file, force=False, progress=wait))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    canceled.set()
    await asyncio.to_thread(eventually, lambda: not [*tmp_path.iterdir()], "the draft is gone")
    assert len(blocks) == 1


def test_schema_has_no_objects_that_a_backup_does_not_support(
    shared_place: ServerDatabase,
) -> None:
    """Backups support no sequences, no triggers, and no tables without an `org_id`."""
    with psycopg.connect(shared_place.admin_dsn) as admin:
        carried = {table.name for table in org_tables(admin)}
        relations = admin.execute(
            """select relname, relkind::text from pg_class
                where relnamespace = 'public'::regnamespace and relkind not in ('i', 'I')
                  and not relispartition
                  and not exists (select from pg_depend d where d.objid = oid and deptype = 'e')"""
        ).fetchall()
        triggers = admin.execute("select tgname from pg_trigger where not tgisinternal").fetchall()
    assert {name for name, kind in relations} == carried | {"schema_migration"}
    assert {kind for _, kind in relations} == {"r", "p"}
    assert triggers == []
