"""Rate and CPU time of claiming and submitting a step, compared with other durable engines (peers).

All systems run the same work (`lanes.py`) on one PostgreSQL server with `fsync` on, each in its own
process, environment and database; the SQL functions share the database of Waybook. The rounds of
the systems are interleaved, so that other load on the machine affects all of them, and the first
round is not counted. The process of a system runs only during its turn, and warms up before the
measurement. Limits apply to the ratio of rates within a round. `make bench` installs the peers; a
peer that is not installed is left out.

    python benchmarks/peers/run.py [--plans 5] [--rounds 5] [--only waybook floor-driver]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from limits import Check, finish
from server_cpu import find_postmaster, server_cpu_seconds
from systems import OWN, ROOT, SYSTEMS, TOGETHER, WAYBOOK, System
from waybook.cli.demo.environment import temporary_database
from waybook.embedded_postgres.supervisor import attach
from waybook.store.maintenance.migrate import migrate

#: Environment variables that turn telemetry off, and name a proxy which does not exist.
OFFLINE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"),
    "LANGSMITH_TRACING": "false",
    "OTEL_SDK_DISABLED": "true",
}


#: Number of plans of each concurrent worker in the warm-up.
WARM_UP_PLANS = 2
#: Seconds after which a driver that has not ended is killed.
MAX_END_SECONDS = 20.0


class Round(NamedTuple):
    """Figures of a system in a round: steps per second, and CPU microseconds per step."""

    rate: float
    python: float
    postgres: float


class Driver:
    """Driver process of a system, which runs only while the system is measured."""

    def __init__(self, system: System, address: str) -> None:
        environment = {**os.environ, **OFFLINE, "PYTHONPATH": ""}
        if system.package is None:
            environment["PYTHONPATH"] = str(ROOT / "benchmarks")
        self._system = system
        self._process = subprocess.Popen(
            [
                system.environment / "bin/python",
                system.script,
                address,
                *filter(None, [system.variant]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run_round(self, postmaster: int, number: int, plans: int) -> Round:
        """Make one round; return its figures."""
        assert self._ask({"turn": number, "plans": plans})["ready"]
        before = server_cpu_seconds(postmaster)
        figures = self._ask({})
        used = server_cpu_seconds(postmaster) - before
        cycles = figures["cycles"]
        per_cycle = 1e6 / cycles
        return Round(cycles / figures["seconds"], figures["cpu"] * per_cycle, used * per_cycle)

    def end(self) -> None:
        """Wait until the process ends; kill it if this takes too long."""
        try:
            self._process.communicate(timeout=MAX_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the driver of {self._system.label} has ended"
        reply: dict[str, Any] = json.loads(line)
        return reply


def take_turn(system: System, address: str, postmaster: int, turn: int, plans: int) -> Round:
    """Start the driver of a system; return the figures of a round after a warm-up."""
    driver = Driver(system, address)
    try:
        driver.run_round(postmaster, 2 * turn, WARM_UP_PLANS)
        return driver.run_round(postmaster, 2 * turn + 1, plans)
    finally:
        driver.end()


def create_database(admin: psycopg.Connection[Any], system: System) -> str:
    """Create a database for a system; return its URL."""
    admin.execute(SQL("create database {}").format(Identifier(system.key)))
    server = admin.info
    login = f"{server.user}:{server.password}"
    return f"postgresql://{login}@/{system.key}?host={quote(server.host, safe='')}"


def measure(
    systems: Sequence[System], plans: int, rounds: int
) -> tuple[dict[str, list[Round]], str]:
    """Return the figures of all rounds of each system, and PostgreSQL's version."""
    results: dict[str, list[Round]] = {system.key: [] for system in systems}
    with (
        temporary_database() as data_dir,
        attach(data_dir) as postgres,
        psycopg.connect(postgres.admin_dsn, autocommit=True) as admin,
    ):
        migrate(postgres.owner_dsn)
        settings = "select current_setting('fsync'), current_setting('server_version')"
        row = admin.execute(settings).fetchone()
        assert row
        assert row[0] == "on"
        postmaster = find_postmaster(data_dir)
        addresses = {
            system.key: str(data_dir) if system.package is None else create_database(admin, system)
            for system in systems
        }
        for turn in range(rounds + 1):
            for system in systems:
                figures = take_turn(system, addresses[system.key], postmaster, turn, plans)
                if turn:
                    results[system.key].append(figures)
    return results, row[1]


def make_row(system: System, own: Sequence[Round], rounds: Sequence[Round]) -> dict[str, Any]:
    """Return the row of a system: its medians, and the ratio of Waybook's CPU time to its own."""
    medians = Round(*(median(values) for values in zip(*rounds, strict=True)))
    costs = [a.python + a.postgres for a in own], [b.python + b.postgres for b in rounds]
    return {
        "key": system.key,
        "label": system.label,
        "version": system.version,
        "lacks": system.lacks,
        **medians._asdict(),
        "cpuRatio": median(a / b for a, b in zip(*costs, strict=True)),
    }


def report(systems: Sequence[System], results: Mapping[str, Sequence[Round]], version: str) -> None:
    """Print the table and the checks; exit with code 1 if a limit is missed."""
    own = results[WAYBOOK.key]
    rows = [make_row(system, own, results[system.key]) for system in systems]
    print(f"{'step cycle, 16 concurrent':38}{'cycles/s':>9}{'Python µs':>11}{'PostgreSQL µs':>15}")
    for row in rows:
        figures = f"{row['rate']:9.0f}{row['python']:11.0f}{row['postgres']:15.0f}"
        print(f"{row['label']:38}{figures}  {row['version']}")
    checks = [check for own in OWN for check in make_checks(own, systems, results)]
    finish("peers", checks, rows=rows, postgresql=version)


def make_checks(
    own: System, systems: Sequence[System], results: Mapping[str, Sequence[Round]]
) -> Iterator[Check]:
    """Yield a check per peer (compared system): the rate of `own`, divided by the peer's rate."""
    for system in systems:
        limit, goal = system.limit, system.goal
        if own is TOGETHER:
            limit, goal = system.together_limit, system.together_goal
        # A variant of the SQL functions (driver `floor`) is compared only with that variant of
        # Waybook which makes the same number of calls per step.
        is_floor_of_other = system.driver == "floor" and (limit, goal) == (None, None)
        if system not in OWN and not is_floor_of_other:
            pairs = zip(results[own.key], results[system.key], strict=True)
            yield Check(
                name=f"rate, {own.label} : {system.label}",
                rounds=[a.rate / b.rate for a, b in pairs],
                limit=limit,
                goal=goal,
            )


def main(plans: int, rounds: int, only: Sequence[str]) -> None:
    """Measure all systems that are installed, and compare them."""
    chosen = [system for system in SYSTEMS if not only or system in OWN or system.key in only]
    for system in chosen:
        if not system.is_installed():
            print(f"{system.label}: not installed")
    installed = [system for system in chosen if system.is_installed()]
    report(installed, *measure(installed, plans, rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--plans", type=int, default=5, help="plans per lane and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="keys of the systems to measure")
    options = parser.parse_args()
    main(options.plans, options.rounds, options.only)
