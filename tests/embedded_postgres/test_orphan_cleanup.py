"""Clusters outside their data directory, which are removed after it was deleted."""

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_postgres.data_directories import (
    make_data_directory,
    remove_data_directory,
    server_home,
)
from embedded_postgres.processes import eventually, keepers, kill, open_client, postmasters
from missing_programs import ROOT
from waybook.embedded_postgres.data_directory import (
    ORPHAN_SECONDS,
    ControlDirectory,
    ServerDirectory,
    claim,
    remove_orphans,
)

LATER = ORPHAN_SECONDS + 60
#: Id of an operating-system user without processes.
UNUSED_USER = 64_321

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason=ROOT.missing)


@pytest.fixture
def hidden() -> Iterator[Path]:
    """Yield a data directory that the operating-system user of the server cannot read."""
    with make_data_directory(0o700) as place:
        yield place / "data"


@pytest.fixture
def base() -> Iterator[Path]:
    """Yield a directory for clusters; data directories are beside this directory."""
    with make_data_directory(0o700) as place:
        (place / "clusters").mkdir()
        yield place / "clusters"


def record_of(home: ServerDirectory) -> Path:
    return home.directory.with_name(f"{home.directory.name}.origin")


def make_cluster(base: Path, name: str) -> tuple[ControlDirectory, ServerDirectory]:
    """Create the files of a cluster; return its control directory and its server directory."""
    control_dir, home = ControlDirectory(base.parent / name), ServerDirectory(base / name)
    control_dir.directory.mkdir(parents=True)
    home.cluster.mkdir(parents=True)
    os.chown(home.directory, UNUSED_USER, -1)
    os.close(claim(home, control_dir))
    return control_dir, home


def removed_after_a_month(base: Path) -> list[Path]:
    """Run the cleanup now and for a time in a month; return all clusters that it removed."""
    return [*remove_orphans([base]), *remove_orphans([base], time.time() + LATER)]


def test_database_supervisor_exits_when_data_directory_is_deleted(hidden: Path) -> None:
    with open_client(hidden, grace=60) as client:
        assert "app_dsn" in client.complete()
        home, keeping = server_home(hidden), keepers(hidden)
        assert not home.directory.is_relative_to(hidden)
        assert postmasters(home.cluster)
        shutil.rmtree(hidden)
        eventually(lambda: not keepers(hidden), "the keeper has ended")
    assert keeping
    assert postmasters(home.cluster) == []
    assert home.cluster.exists()
    assert home.directory in removed_after_a_month(home.directory.parent)
    assert not home.directory.exists()
    assert not record_of(home).exists()


def test_cleanup_marks_unused_files_before_a_later_removal(hidden: Path) -> None:
    with open_client(hidden, grace=60) as client:
        assert "app_dsn" in client.complete()
        home = server_home(hidden)
        for keeper in keepers(hidden):
            # Stop the supervisor, so that it does not notice that the data directory is deleted.
            os.kill(keeper, signal.SIGSTOP)
        servers = postmasters(home.cluster)
        shutil.rmtree(hidden)
        kill(*keepers(hidden))
        # The cleanup keeps the cluster, because a server still uses it.
        assert remove_orphans([home.directory.parent]) == []
        assert home.cluster.exists()
        for server in servers:
            os.kill(server, signal.SIGQUIT)
        eventually(lambda: not postmasters(home.cluster), "the server has ended")
    other = hidden.with_name("other")
    with open_client(other) as client:
        assert "app_dsn" in client.complete()
        assert "orphaned_at" in json.loads(record_of(home).read_text())
    remove_data_directory(other)
    assert home.directory in remove_orphans([home.directory.parent], time.time() + LATER)
    assert not record_of(home).exists()


def test_cleanup_removes_only_files_of_deleted_data_directories(base: Path) -> None:
    existing, existing_home = make_cluster(base, "kept")
    moved, moved_home = make_cluster(base, "moved")
    gone, gone_home = make_cluster(base, "gone")
    moved.data_dir.rename(moved.data_dir.with_name("elsewhere"))
    shutil.rmtree(gone.data_dir)
    foreign = base / "foreign"
    foreign.mkdir()
    assert remove_orphans([base]) == [], "it is only marked at first"
    assert gone_home.cluster.exists()
    assert remove_orphans([base], time.time() + LATER) == [gone_home.directory]
    assert not gone_home.directory.exists()
    assert existing.directory.exists()
    assert all(path.exists() for path in (existing_home.cluster, moved_home.cluster, foreign))
    assert remove_orphans([base]) == []


def test_cleanup_keeps_files_that_a_supervisor_is_using(base: Path) -> None:
    control_dir, home = make_cluster(base, "held")
    held = claim(home, control_dir)
    shutil.rmtree(control_dir.data_dir)
    assert removed_after_a_month(base) == []
    os.close(held)
    assert removed_after_a_month(base) == [home.directory]


def test_cleanup_keeps_files_used_by_a_copied_data_directory(base: Path) -> None:
    control_dir, home = make_cluster(base, "copied")
    copy = ControlDirectory(base.parent / "copy")
    shutil.copytree(control_dir.data_dir, copy.data_dir)
    shutil.rmtree(control_dir.data_dir)
    assert remove_orphans([base]) == []
    os.close(claim(home, copy))
    assert removed_after_a_month(base) == []
    assert home.cluster.exists()


@pytest.mark.parametrize("record", ["", "{}", "[1]", '{"linked": false, "data_dir": "/nowhere"}'])
def test_cleanup_keeps_files_if_record_of_data_directory_is_unusable(
    base: Path, record: str
) -> None:
    home = ServerDirectory(base / "unproven")
    home.cluster.mkdir(parents=True)
    record_of(home).write_text(record)
    assert remove_orphans([base]) == []
    assert home.cluster.exists()
