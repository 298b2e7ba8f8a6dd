"""Damaged archives and killed processes: the database is unchanged, and no file remains."""

import asyncio
import contextlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from backup import stopped
from backup.copies import all_rows, back_up, empty_database, restore_into
from embedded_postgres.processes import eventually
from foreign_records import all_foreign_records
from org_env import OrgEnv, make_env
from postgres_servers import Server, ServerDatabase, new_database
from waybook.errors import InvalidInput
from waybook.store.maintenance.archive import ANCHORS, Archive, Member, open_archive
from waybook.store.maintenance.migrate import migrate

FLIPS = 60


@pytest.fixture(scope="module")
def original(eighteen: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the backup of a small database that has rows in most tables."""
    file = tmp_path_factory.mktemp("archives") / "backup.zip"

    async def fill(place: ServerDatabase) -> None:
        async with make_env(place) as world:
            await all_foreign_records(world.agent)

    with new_database(eighteen) as place:
        asyncio.run(fill(place))
        back_up(place, file)
    return file


@pytest.fixture
def copy(eighteen: Server) -> Iterator[ServerDatabase]:
    with empty_database(eighteen) as place:
        migrate(place.owner_dsn)
        yield place


def contents(file: Path) -> tuple[object, list[list[bytes]]]:
    """Check a backup archive; return its manifest and the data of its files."""
    with open_archive(file) as archive:
        archive.verify(lambda *_: None)
        return archive.manifest, [[*archive.blocks(member)] for member in archive.manifest.members]


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9, 0.999])
def test_restore_of_a_truncated_archive_changes_nothing(
    original: Path, copy: ServerDatabase, tmp_path: Path, fraction: float
) -> None:
    file = tmp_path / "cut.zip"
    data = original.read_bytes()
    file.write_bytes(data[: int(len(data) * fraction)])
    before = all_rows(copy)
    with pytest.raises(InvalidInput, match="damaged"):
        restore_into(copy, file)
    assert all_rows(copy) == before


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_backup_archive_with_unknown_compression_is_rejected_as_damaged(
    original: Path, tmp_path: Path, method: int
) -> None:
    file = tmp_path / "other.zip"
    with zipfile.ZipFile(original) as source, zipfile.ZipFile(file, "w", method) as copy:
        for name in source.namelist():
            copy.writestr(name, source.read(name))
    with pytest.raises(InvalidInput, match="damaged"):
        contents(file)


def test_backup_with_a_flipped_bit_is_rejected_or_restores_unchanged(
    original: Path, tmp_path: Path
) -> None:
    file, data = tmp_path / "flipped.zip", bytearray(original.read_bytes())
    sound, detected = contents(original), 0
    for number in range(FLIPS):
        place = number * len(data) // FLIPS
        data[place] ^= 1 << number % 8
        file.write_bytes(data)
        with contextlib.suppress(InvalidInput):
            assert contents(file) == sound
            detected -= 1
        detected += 1
        data[place] ^= 1 << number % 8
    assert detected > FLIPS // 2


def test_restore_is_rolled_back_if_damage_appears_while_loading(
    original: Path, copy: ServerDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before loading is disabled, so the damage is not found earlier."""
    monkeypatch.setattr(Archive, "verify", lambda *_: None)
    file, data = tmp_path / "flipped.zip", bytearray(original.read_bytes())
    with open_archive(original) as archive:
        last = archive._zip.getinfo(archive.manifest.members[-1].name)
        behind = archive._zip.getinfo(ANCHORS).header_offset
        data[behind - last.compress_size // 2] ^= 0x10
    file.write_bytes(data)
    before = all_rows(copy)
    with pytest.raises(InvalidInput, match="damaged"):
        restore_into(copy, file)
    assert all_rows(copy) == before


def test_backup_archive_with_a_replaced_file_is_rejected(original: Path, tmp_path: Path) -> None:
    """The checksums of the zip file are correct, but a row is missing in one of its files."""
    file = tmp_path / "replaced.zip"
    with zipfile.ZipFile(original) as source, zipfile.ZipFile(file, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            target.writestr(name, data.split(b"\n", 1)[1] if name.endswith("/plan.copy") else data)
    with pytest.raises(InvalidInput, match=r"plan\.copy does not match the manifest"):
        contents(file)


def test_row_level_security_rejects_restored_row_of_other_org(
    original: Path, copy: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive checks are disabled, so that only row-level security can refuse the row."""
    monkeypatch.setattr(Archive, "verify", lambda *_: None)
    with open_archive(original) as archive:
        orgs = sorted({member.org_id for member in archive.manifest.members})

    def elsewhere(self: Archive, member: Member) -> Iterator[bytes]:
        data = self._zip.read(member.name)
        yield data.replace(orgs[-1].encode(), orgs[-2].encode())

    monkeypatch.setattr(Archive, "blocks", elsewhere)
    before = all_rows(copy)
    with pytest.raises(InvalidInput, match="has a row of another org"):
        restore_into(copy, original)
    assert all_rows(copy) == before


def start_stopped(what: str, place: ServerDatabase, file: Path) -> subprocess.Popen[str]:
    """Start a process that stops in the middle of a backup or restore."""
    command = [sys.executable, stopped.__file__, what, place.owner_dsn, str(file)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "stopped\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def is_left_alone(place: ServerDatabase) -> bool:
    """Return whether the database has no other connections."""
    with psycopg.connect(place.admin_dsn) as admin:
        ((others,),) = admin.execute(
            """select count(*) from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid()"""
        ).fetchall()
    return not others


def test_restore_killed_midway_leaves_database_unchanged(
    original: Path, copy: ServerDatabase
) -> None:
    before = all_rows(copy)
    kill(start_stopped("restore", copy, original))
    eventually(lambda: is_left_alone(copy), "the server has noticed")
    assert all_rows(copy) == before
    restore_into(copy, original)
    assert len(all_rows(copy)["plan"]) > 1


async def test_backup_killed_midway_leaves_no_archive(alone: OrgEnv, tmp_path: Path) -> None:
    await all_foreign_records(alone.agent)
    file = tmp_path / "backup.zip"
    kill(start_stopped("backup", alone.place, file))
    assert not file.exists()
    back_up(alone.place, file)
    assert contents(file)


def test_restore_refuses_a_missing_file_or_another_kind_of_file(
    copy: ServerDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "letter.txt"
    file.write_text("Dear Ann,")
    with pytest.raises(InvalidInput, match="not a complete zip file"):
        restore_into(copy, file)
    with pytest.raises(InvalidInput, match="there is no file"):
        restore_into(copy, tmp_path / "nothing.zip")
