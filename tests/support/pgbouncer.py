"""Real pgbouncer in front of a database: transaction mode, four server connections."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import missing_programs
from embedded_postgres.processes import eventually
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase

PGBOUNCER = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
POOL = 4


@contextmanager
def start_pgbouncer(place: ServerDatabase) -> Iterator[ServerDatabase]:
    """Start pgbouncer; yield the database with a DSN that connects through pgbouncer."""
    assert PGBOUNCER is not None, missing_programs.PGBOUNCER.missing
    home = Path(tempfile.mkdtemp(prefix="waybook-pooler-"))
    home.chmod(0o755)
    user = "postgres" if os.getuid() == 0 else None
    if user is not None:
        shutil.chown(home, user)
    (home / "pgbouncer.ini").write_text(_settings(home, place))
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [PGBOUNCER, home / "pgbouncer.ini"], user=user, stdout=log, stderr=log, cwd="/"
        )
    through = make_conninfo("", host=str(home), port=6432, dbname=place.dbname, user="anybody")
    try:
        eventually(lambda: _answers(through), "pgbouncer answers")
        yield replace(place, through=through)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
        shutil.rmtree(home, ignore_errors=True)


def _settings(home: Path, place: ServerDatabase) -> str:
    server = conninfo_to_dict(place.app_dsn)
    parameters = {
        name: server[name] for name in ("host", "port", "user", "password") if name in server
    }
    line = " ".join(f"{name}='{value}'" for name, value in parameters.items())
    return f"""
[databases]
{place.dbname} = dbname={place.dbname} {line}
[pgbouncer]
unix_socket_dir = {home}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = {POOL}
max_client_conn = 200
"""


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True
