"""Backup with `pg_dump` as in the docs, by a role that bypasses row-level security."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import make_conninfo

from backup.copies import all_rows, anchored, back_up, check_audit_of, empty_database, fill
from backup.test_anchors import compared
from missing_programs import FIFTEEN
from org_env import OrgEnv
from postgres_servers import ServerDatabase
from waybook.embedded_postgres import cluster
from waybook.store.driver.queries import new_uuid


def program(place: ServerDatabase, name: str) -> Path:
    """Return the path of the PostgreSQL program that matches the server's version."""
    directory = FIFTEEN if place.server.name == "15" else cluster._carried() / "bin"
    return directory / name


def run(place: ServerDatabase, name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [program(place, name), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@contextmanager
def reader(place: ServerDatabase) -> Iterator[str]:
    """Yield the DSN of a role that can read all rows and change none."""
    name, password = f"reader_{new_uuid()[-12:]}", new_uuid()
    with psycopg.connect(place.admin_dsn, autocommit=True) as admin:
        admin.execute(f"create role {name} login bypassrls password '{password}'".encode())
        admin.execute(f"grant pg_read_all_data to {name}".encode())
        try:
            yield make_conninfo(place.admin_dsn, user=name, password=password)
        finally:
            admin.execute(f"drop role {name}".encode())


async def test_pg_dump_by_rls_exempt_role_contains_every_row(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await fill(own_world)
    place, dump, ours = own_world.place, tmp_path / "waybook.dump", tmp_path / "backup.zip"
    back_up(place, ours)
    with reader(place) as dsn:
        done = run(place, "pg_dump", "--format=custom", f"--file={dump}", f"--dbname={dsn}")
    assert done.returncode == 0, done.stderr
    with empty_database(place.server) as copy:
        into = f"--dbname={copy.owner_dsn}"
        done = run(copy, "pg_restore", "--no-owner", "--exit-on-error", into, dump)
        assert done.returncode == 0, done.stderr
        assert all_rows(copy) == all_rows(place)
        await check_audit_of(copy)
        assert (await compared(copy, ours)).ok
        again = tmp_path / "again.zip"
        back_up(copy, again)
        assert anchored(again) == anchored(ours)


async def test_pg_dump_by_database_owner_fails_or_loses_every_row(
    own_world: OrgEnv, tmp_path: Path
) -> None:
    await own_world.agent.plan()
    place, dump, ours = own_world.place, tmp_path / "waybook.dump", tmp_path / "backup.zip"
    back_up(place, ours)
    words = ("--format=custom", f"--file={dump}", f"--dbname={place.owner_dsn}")
    refused = run(place, "pg_dump", *words)
    assert refused.returncode != 0
    assert "row-level security" in refused.stderr
    assert run(place, "pg_dump", "--enable-row-security", *words).returncode == 0
    with empty_database(place.server) as copy:
        run(copy, "pg_restore", "--no-owner", f"--dbname={copy.owner_dsn}", dump)
        assert all_rows(copy) == {}
        check = await compared(copy, ours)
        assert len(anchored(ours)) == check.chains == check.error_count > 0
