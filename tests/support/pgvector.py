"""Search for a PostgreSQL server whose pgvector works on this CPU.

The first use of an extension built for another processor crashes the server. Therefore the
extension is tested in a single-user backend with its own data directory, not in a server that other
tests use.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from missing_programs import FIFTEEN
from postgres_servers import alone
from run_place import PLACE
from waybook.embedded_postgres.cluster import find_binaries
from waybook.embedded_postgres.data_directory import server_account

#: SQL that uses every feature of pgvector that Waybook uses.
TRIAL = """\
create extension vector;

create table t (id integer, e halfvec(288));

create index on t using hnsw (e halfvec_ip_ops);

insert into t select n, array_fill(n / 100.0, array[288])::halfvec from generate_series(1, 99) n;

select id, e <#> array_fill(0.5, array[288])::halfvec from t order by 2 limit 3;

set enable_seqscan = off;

select id from t order by e <#> array_fill(0.5, array[288])::halfvec limit 3;

delete from t where id < 50;

vacuum t;

"""


def usable_server() -> tuple[str | None, str]:
    """Return the name of a server with working pgvector, or None and the error of each server."""
    tried = []
    for name in ("15", "18"):
        error = _fault(name)
        if error is None:
            return name, ""
        tried.append(f"{name}: {error}")
    return None, "; ".join(tried)


def _fault(name: str) -> str | None:
    """Return the error of pgvector on this server, or None; each server is tested only once."""
    verdict = Path(os.environ[PLACE]) / f"pgvector-{name}"
    with alone("pgvector.lock"):
        if not verdict.exists():
            verdict.write_text(try_extension(name) or "")
        return verdict.read_text() or None


def try_extension(name: str) -> str | None:
    """Test pgvector in a temporary data directory; return the error, or None if it works."""
    account = server_account()
    programs = FIFTEEN if name == "15" else find_binaries(account)[0]
    if not (programs / "initdb").exists():
        return "is not installed"
    user = account.name or None
    with tempfile.TemporaryDirectory(prefix="waybook-pgvector-") as folder:
        if user:
            shutil.chown(folder, user)
        cluster = Path(folder) / "cluster"
        made = ("-D", cluster, "-U", "postgres", "-A", "trust", "--locale=C", "--no-sync")
        subprocess.run(
            [programs / "initdb", *made], check=True, user=user, cwd="/", stdout=subprocess.DEVNULL
        )
        single = ("--single", "-j", "-D", cluster, "-F", "-c", "exit_on_error=on", "postgres")
        done = subprocess.run(
            [programs / "postgres", *single],
            input=TRIAL,
            text=True,
            capture_output=True,
            check=False,
            user=user,
            cwd="/",
        )
    if done.returncode < 0:
        return f"its extension died of signal {-done.returncode}"
    return done.stderr.strip().splitlines()[-1][:160] if done.returncode else None
