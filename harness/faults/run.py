"""Command line of the fault test.

Usage: `python -m faults.run short`, with PYTHONPATH=harness:tests:tests/support.
"""

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import uvloop

from faults import report
from faults.cluster import PGBOUNCER, SOURCE, Options
from faults.conduct import Assignment, Result, conduct, remove_home
from faults.planted import BUGS, Bug, planted
from faults.recovery import measure
from faults.schedule import LONG, PLANTED, SHORT, Kind
from faults.soak import MEGABYTE, soak

LONG_ACKNOWLEDGED: Final = 100_000
LONG_SECONDS: Final = 4_200.0
LONG_DISK_MEGABYTES: Final = 3_072
#: Minimum number of faults of each kind in the mode `long`.
LONG_FAULTS: Final = {Kind.SERVER_KILL: 200, Kind.DATABASE_KILL: 50}
PLANTED_SECONDS: Final = 25.0
#: Maximum number of test runs to find a planted bug, each with another seed.
PLANTED_ROUNDS: Final = 3


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def short(seed: int, source: Path) -> int:
    """Cause every kind of fault for about two minutes."""
    return await _reported(Assignment(seed=seed, counts=SHORT, options=Options(source=source)))


async def long(seed: int, source: Path) -> int:
    """Cause hundreds of faults, and continue until 100,000 calls were acknowledged."""
    assignment = Assignment(
        seed=seed,
        counts=LONG,
        options=Options(source=source, disk_megabytes=LONG_DISK_MEGABYTES),
        pause_seconds=0.25,
        max_seconds=LONG_SECONDS,
        min_acknowledged=LONG_ACKNOWLEDGED,
    )
    return await _reported(assignment, LONG_FAULTS)


async def _reported(assignment: Assignment, least: Mapping[Kind, int] | None = None) -> int:
    """Make a test run and print its result; return the number of violations and missed targets."""
    result = await conduct(assignment)
    say(report.summary(result))
    if not result.violations:
        remove_home(result.home)
    counts, acknowledged = result.injector.counts, result.history.acknowledged
    missing = [
        f"{kind}: {counts[kind]}, at least {count} were to be caused"
        for kind, count in (least or {}).items()
        if counts[kind] < count
    ]
    if acknowledged < assignment.min_acknowledged:
        missing.append(f"{acknowledged} calls, at least {assignment.min_acknowledged} were to be")
    for line in missing:
        say(f"NOT REACHED: {line}")
    return len(result.violations) + len(missing)


async def planted_bugs(seed: int, only: str) -> int:
    """Check that each planted bug is detected, and that unchanged code has no violation."""
    chosen = [bug for bug in BUGS if only in bug.name]
    missed = []
    sound = await _look_for(None, seed)
    _say_of_bug("no bug at all", sound, caught=not sound.violations)
    if sound.violations:
        missed.append("no bug at all")
    for bug in chosen:
        caught = False
        for number in range(PLANTED_ROUNDS):
            result = await _look_for(bug, seed + number)
            caught = bug.is_shown_by(result.violations)
            _say_of_bug(bug.name, result, caught=caught)
            if caught:
                break
        if not caught:
            missed.append(bug.name)
    say(f"{len(chosen)} bugs were planted; not as they should be: {', '.join(missed) or 'none'}")
    return len(missed) if chosen else 1


async def _look_for(bug: Bug | None, seed: int) -> Result:
    with planted(bug) as source:
        assignment = Assignment(
            seed=seed,
            counts=PLANTED,
            options=Options(source=source, disk_megabytes=None),
            pause_seconds=0.1,
            max_seconds=PLANTED_SECONDS,
            drains=False,
        )
        result = await conduct(assignment)
    remove_home(result.home)
    return result


def _say_of_bug(name: str, result: Result, *, caught: bool) -> None:
    counts = Counter(violation.checker for violation in result.violations)
    summary = ", ".join(f"{checker} {count}" for checker, count in counts.most_common())
    calls = f"{result.history.acknowledged} calls, {result.seconds:.0f} s"
    say(f"{'✓' if caught else '✗'} {name}: caught by {summary or 'nothing'}; {calls}")
    shown = {violation.checker: violation.message for violation in reversed(result.violations)}
    for checker, message in shown.items():
        say(f"    {checker}: {message[:260]}")


async def recovery(seed: int, source: Path) -> int:
    """Measure how soon calls succeed again after faults."""
    measured = await measure(seed, source)
    say(f"{'first success after healing, s':<34}{'server':<8}{'p50':>7}{'max':>7}{'n':>5}")
    for (kind, server), seconds in measured.injector.recoveries.items():
        figures = f"{median(seconds):>7.2f}{max(seconds):>7.2f}{len(seconds):>5}"
        say(f"{kind:<34}{server:<8}{figures}")
    for server, exited in measured.exit_seconds.items():
        say(f"{'SIGTERM to the end of the server':<34}{server:<8}{exited:>7.2f}")
    say(f"{measured.history.acknowledged} calls acknowledged, {len(measured.history.hung)} hung")
    remove_home(measured.injector.cluster.home)
    return _report_violations(measured.violations)


async def soaking(seed: int, minutes: float, source: Path) -> int:
    """Check that memory, file descriptors and connections do not grow during a long test."""
    soaked = await soak(seed, minutes, source)
    say(f"{minutes:g} minutes, {soaked.history.acknowledged} calls acknowledged")
    say(f"{'median of a quarter':<28}{'second':>10}{'last':>10}{'max':>10}")
    for name, values in soaked.series.items():
        scale = MEGABYTE if name[1] == "memory" else 1
        second, last = soaked.growth(name)
        figures = "".join(f"{value / scale:>10.1f}" for value in (second, last, max(values)))
        say(f"{name[0] + ' ' + name[1] + (' MB' if scale > 1 else ''):<28}{figures}")
    remove_home(soaked.home)
    return _report_violations(soaked.violations)


def _report_violations(violations: list[str]) -> int:
    for violation in violations:
        say(f"VIOLATION: {violation}")
    say(f"{len(violations)} violations")
    return len(violations)


def main() -> int:
    parser = argparse.ArgumentParser(description="break the system, and check what is left")
    parser.add_argument("mode", choices=["short", "long", "planted", "recovery", "soak"])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--minutes", type=float, default=60.0, help="duration of `soak`")
    parser.add_argument("--only", default="", help="`planted`: part of a bug's name")
    parser.add_argument("--source", type=Path, default=SOURCE, help="folder of the package to run")
    args = parser.parse_args()
    if PGBOUNCER is None:
        say("pgbouncer is not installed; install it, for one of the servers is behind it")
        return 2
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
    say(f"seed {seed}")
    modes = {
        "short": lambda: short(seed, args.source),
        "long": lambda: long(seed, args.source),
        "planted": lambda: planted_bugs(seed, args.only),
        "recovery": lambda: recovery(seed, args.source),
        "soak": lambda: soaking(seed, args.minutes, args.source),
    }
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return 1 if runner.run(modes[args.mode]()) else 0


if __name__ == "__main__":
    sys.exit(main())
