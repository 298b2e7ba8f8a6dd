"""Test of Waybook on a Citus cluster: `make harness NAME=citus`.

    python -m citus.run [--source FOLDER | --url URL] [--only TEXT]

`--source` builds Citus from this folder, and starts a coordinator and two worker nodes on loopback.
`--url` uses an existing cluster instead, as its superuser. The schema is migrated and distributed.
Then the demo and `waybook retain` are executed, agents of two orgs call a server, two orgs take
turns on one connection, a distributed database with data is migrated, and the tests of the store,
of the tools, and of whole plans and runs are executed. The harness prints into how many tasks Citus
splits each frequent query, and the tests that passed or were left out. It fails if anything failed,
or if a frequent query has more than one task.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from citus.build import build
from citus.cluster import running
from citus.served import serve_two_orgs
from citus.tasks import FREQUENT, UNROUTED, plan_queries
from citus.two_orgs import alternate
from citus.upgraded import upgrade
from faults.cluster import ROOT
from fleet.run import say
from postgres_servers import (
    Server,
    ServerDatabase,
    citus,
    create_cluster_database,
    drop_database,
)
from run_place import CITUS, PLACE, close_place, open_place

DBNAME: Final = "waybook_citus"
RESTORED: Final = "waybook_citus_restored"
WAYBOOK: Final = Path(sys.executable).with_name("waybook")
#: Tests of the store, of the tools, and of whole plans and runs.
TESTS: Final = ("tests/store", "tests/app", "tests/acceptance")
SELECTED: Final = "not pg15 and not slow and not load and not model"


@contextmanager
def cluster(options: argparse.Namespace) -> Iterator[Server]:
    """Start a cluster, or connect to one; yield it as a database server for tests."""
    with ExitStack() as stack:
        if options.url is None:
            options.url = stack.enter_context(running(build(Path(options.source))))
        os.environ[CITUS] = options.url
        stack.callback(close_place, open_place())
        yield stack.enter_context(citus())


def migrated(server: Server) -> ServerDatabase:
    """Create, migrate and distribute a database, as operators do."""
    place = create_cluster_database(server, DBNAME)
    run_waybook(place, "migrate", "--distribute")
    return place


def url_of(place: ServerDatabase) -> str:
    """Return the URL with which the database owner connects."""
    node = conninfo_to_dict(place.owner_dsn)
    password = f":{node['password']}" if "password" in node else ""
    return f"postgresql://{node['user']}{password}@{node['host']}:{node['port']}/{place.dbname}"


def run_waybook(place: ServerDatabase, *words: str) -> None:
    """Run a Waybook command as the database owner.

    Raises:
        subprocess.CalledProcessError: the command failed.
    """
    _run(["--database-url", url_of(place)], *words)


def _run(database: list[str], *words: str) -> str:
    environment = {**os.environ, "COLUMNS": "100"}
    command = [str(WAYBOOK), *words, *database]
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    return done.stdout


def restored(server: Server, place: ServerDatabase) -> str:
    """Restore a backup of the cluster into two databases; return a line for the report.

    The first database is on a single server. The second one is on the cluster, and is distributed
    after the restore.

    Raises:
        AssertionError: the restored audit is different, or has no entries.
    """
    verify = ("audit", "verify", "--json")
    with tempfile.TemporaryDirectory(prefix="waybook-citus-") as folder, ExitStack() as stack:
        archive, single = str(Path(folder, "all.wbk")), ["--data-dir", str(Path(folder, "data"))]
        _run(["--database-url", url_of(place)], "backup", archive)
        _run(single, "restore", archive)
        stack.callback(drop_database, server, RESTORED)
        again = create_cluster_database(server, RESTORED)
        run_waybook(again, "restore", archive)
        run_waybook(again, "migrate", "--distribute")
        chains, *others = (
            json.loads(_run(database, *verify))["chains"]
            for database in (
                ["--database-url", url_of(place)],
                ["--database-url", url_of(again)],
                single,
            )
        )
    entries = sum(chain["entries"] for chain in chains)
    assert entries
    assert others == [chains, chains]
    return (
        f"a backup with {entries} audit entries was restored into a single server, and into a "
        "database that was distributed then"
    )


def report_tasks(place: ServerDatabase) -> bool:
    """Print the number of tasks of each query; return whether all are as expected."""
    planned = {query.name: query for query in plan_queries(place.owner_dsn)}
    for name, use in FREQUENT.items():
        say(f"{planned[name].tasks} task   {use} ({name})")
    routed = [query for query in planned.values() if query.is_routed]
    say(f"{len(routed)} of {len(planned)} queries are at most one task; the others:")
    for query in planned.values():
        if not query.is_routed:
            reason = UNROUTED.get(query.name, f"UNEXPECTED: {query.refusal or query.tasks}")
            say(f"  {query.name}: {reason}")
    unexpected = planned.keys() - {query.name for query in routed} - UNROUTED.keys()
    return not unexpected and all(planned[name].tasks == 1 for name in FREQUENT)


def run_tests(only: str | None) -> bool:
    """Run the tests on the cluster; return whether they passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "3", "--dist", "worksteal"]
    command += ["-m", SELECTED, *TESTS, *(("-k", only) if only else ())]
    # The tests create and remove their own temporary directory, so do not pass on the variable
    # that names the directory of this process.
    environment = {name: value for name, value in os.environ.items() if name != PLACE}
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--source", help="folder with the source of Citus")
    chosen.add_argument("--url", help="URL of the superuser on the coordinator of a cluster")
    parser.add_argument("--only", help="run only the tests whose names contain this text")
    options = parser.parse_args()
    with cluster(options) as server:
        place = migrated(server)
        say("migrated and distributed")
        run_waybook(place, "demo", "--fast", "--keep")
        say("the demo ended, and its audit is verified")
        run_waybook(place, "retain")
        say("retention created partitions, and found nothing to delete")
        say(restored(server, place))
        say(serve_two_orgs(url_of(place)))
        say(asyncio.run(alternate(place)))
        is_routed = report_tasks(place)
        drop_database(server, DBNAME)
        say(upgrade(server))
        passed = run_tests(options.only)
    return 0 if passed and is_routed else 1


if __name__ == "__main__":
    sys.exit(main())
