"""Rolling restarts and a migration of a fleet of servers under load: `make harness NAME=fleet`.

    python -m fleet.run [--servers 3] [--workers 1] [--agents 8] [--old FOLDER or COMMIT]

Agents call the servers through HAProxy, while every server is restarted in turn, a newer version
migrates the database, newer servers replace the older ones, and older servers replace the newer
ones again. The newer version is a copy of the current one with an additional migration. `--old`
names another version for the older servers: a commit, or a `src` folder. The test fails if a call
was lost, if a result is not stored exactly once, if the audit does not match the rows, if
background work was not done exactly once, or if a server logged an unexpected error.
"""

import argparse
import asyncio
import compileall
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles

from faults.cluster import ROOT, SOURCE
from faults.wire import Address, Wire
from fleet.load import BALANCER, Load, Phase
from fleet.servers import HOST, STALL_SECONDS, Fleet, Variant, new_home, running_fleet
from waybook.store.maintenance.migrate import bundled_migrations

STEADY_SECONDS = 5.0
STALLED_PLANS = 10
SCOPES = ("--scope", "plan:read", "--scope", "plan:write")
PLANTED = """-- Oldest compatible migration: {oldest:04}
alter table plan add column if not exists planted text;
create index planted on plan (org_id, planted) where planted is not null;
"""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def newer_version(home: Path) -> Path:
    """Return a copy of this version with one more migration, which adds a column and an index."""
    copy = home / "newer"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    newest = bundled_migrations()[-1]
    name = f"{newest.number + 1:04}_planted.sql"
    migrations = copy / "waybook" / "store" / "migrations"
    (migrations / name).write_text(PLANTED.format(oldest=newest.oldest_compatible), "utf-8")
    compile_version(copy)
    return copy


def compile_version(source: Path) -> None:
    """Compile the modules of a copy, so that servers start as fast as from an installed package."""
    compileall.compile_dir(source / "waybook", quiet=1)


@contextmanager
def older_version(named: str) -> Iterator[Path]:
    """Yield the `src` folder of the version to start with, from a folder or from a commit."""
    if Path(named).is_dir():
        yield Path(named).resolve()
        return
    words = ["git", "-C", str(ROOT), "archive", named, "src"]
    archive = subprocess.run(words, check=True, capture_output=True).stdout
    home = new_home("older")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(home, filter="data")
        compile_version(home / "src")
        yield home / "src"
    finally:
        shutil.rmtree(home)


async def make_token(fleet: Fleet) -> str:
    """Create a user with a token, with the version of Waybook that created the database."""
    source = fleet.variant.first_source
    await fleet.command(source, "user", "add", "ann", *SCOPES)
    words = ("token", "add", "ann", "--label", "fleet", *SCOPES, "--json")
    return str(json.loads(await fleet.command(source, *words))["token"])


@asynccontextmanager
async def working(load: Load, agents: int) -> AsyncIterator[None]:
    """Let agents work during the block."""
    task = asyncio.create_task(load.run(agents))
    try:
        yield
    except BaseException:
        # Agents might repeat calls without answers for minutes, so cancel them.
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        raise
    load.is_running = False
    await task


async def roll(fleet: Fleet, source: Path) -> None:
    """Replace the servers, one after the other, by servers that run this source."""
    for name in fleet.names:
        await fleet.replace_server(name, source)


async def stall(load: Load, address: Address, token: str, plans: list[str]) -> None:
    """Claim the first steps of some plans without working on them; add the plans to `plans`."""
    wire = Wire({BALANCER: address}, token)
    for number in range(STALLED_PLANS):
        steps = [{"stepType": "search", "instructions": "Leave it."}]
        plan = {"name": f"left {number}", "researchQuestion": "Who notices?", "steps": steps}
        made = await load.call(wire, "create_research_plan", plan)
        await load.call(wire, "get_next_step", {"planId": made["planId"], "sessionId": "gone"})
        plans.append(str(made["planId"]))
    wire.close()


async def violations(fleet: Fleet, load: Load, stalled: Sequence[str]) -> list[str]:
    """Return everything that is wrong in the database and the logs."""
    problems = await wrong_results(fleet, load)
    leaders = await fleet.sql(
        "select count(*) from pg_locks where locktype = 'advisory' and granted and objid > 0"
    )
    if leaders != [(1,)]:
        problems.append(f"one server must lead the background work, but {leaders[0][0]} do")
    problems += await wrong_stalls(fleet, stalled)
    verified = json.loads(await fleet.command(SOURCE, "audit", "verify", "--json"))
    say(f"audit verified: {len(verified['chains'])} chains, {verified['entries']} entries")
    return problems + await asyncio.to_thread(fleet.logged_errors)


async def wrong_results(fleet: Fleet, load: Load) -> list[str]:
    """Return the plans that have more or fewer stored results than acknowledged results."""
    # `load.completed` has only completed plans. For other plans, the expected number of results is
    # the number of their audit entries for completed steps.
    rows = await fleet.sql(
        """select s.plan_id, count(r.step_id), count(*)
             from plan_step s
             left join step_result r on (r.org_id, r.step_id) = (s.org_id, s.id)
            where s.status = 'completed' group by s.plan_id"""
    )
    stored = {str(plan): (results, steps) for plan, results, steps in rows}
    entries = await fleet.sql(
        """select subject_id, count(*) from audit_entry
            where event = 'step_completed' group by subject_id"""
    )
    completions = {str(plan): count for plan, count in entries}
    expected = load.completed
    return [
        f"plan {plan}: {steps} acknowledged results, stored results and completed steps "
        f"{stored.get(plan)}, audit entries {completions.get(plan)}"
        for plan in stored.keys() | completions.keys() | expected.keys()
        for steps in [expected.get(plan, completions.get(plan))]
        if stored.get(plan) != (steps, steps) or completions.get(plan) != steps
    ]


async def wrong_stalls(fleet: Fleet, stalled: Sequence[str]) -> list[str]:
    """Return the plans with an abandoned step that were not marked as stalled exactly once."""
    marks = await fleet.sql(
        """select subject_id, count(*) from audit_entry
            where event = 'plan_modified' and details ->> 'action' = 'stall_detected'
            group by subject_id"""
    )
    counts = {str(plan): count for plan, count in marks}
    wanted = set(stalled)
    return [
        f"plan {plan} was marked as stalled {counts.get(plan, 0)} times"
        for plan in counts.keys() | wanted
        if counts.get(plan) != 1
    ]


def print_phase(phase: Phase) -> None:
    """Print the counts of a phase as a line of a table."""
    ms = [seconds * 1000 for seconds in phase.seconds] or [0.0, 0.0]
    p99 = quantiles(ms, n=100)[98] if len(ms) > 1 else ms[0]
    failed = ", ".join(f"{count} {cause}" for cause, count in phase.failed_attempts.items())
    say(
        f"{phase.name:34}{phase.calls:7}{median(ms):9.0f}{p99:9.0f}{phase.healed:8}{phase.lost:6}"
        f"  {failed or 'none'}"
    )


async def main(servers: int, workers: int, agents: int, old: Path) -> int:
    async with running_fleet(servers, workers, Variant(first_source=old)) as fleet:
        newer, token = newer_version(fleet.home), await make_token(fleet)
        for name in fleet.names:
            fleet.start_server(name, old)
        for name in fleet.names:
            await fleet.await_ready(name)
        address = Address(fleet.ports[BALANCER], f"{HOST}:{fleet.ports[BALANCER]}")
        load = Load(address, token)
        phases, stalled = [], list[str]()
        say(f"{servers} servers with {workers} workers, {agents} agents, HAProxy, pgbouncer")
        say(f"{'phase':34}{'calls':>7}{'p50 ms':>9}{'p99 ms':>9}{'healed':>8}{'lost':>6}  failed")
        async with working(load, agents):
            for name, work in (
                ("steady", asyncio.sleep(STEADY_SECONDS)),
                ("steps are abandoned", stall(load, address, token, stalled)),
                ("rolling restart", roll(fleet, old)),
                ("migration by the newer version", fleet.migrate(newer)),
                ("newer servers replace older ones", roll(fleet, newer)),
                ("older servers return (rollback)", roll(fleet, old)),
                ("steady, and stalls are noticed", asyncio.sleep(STEADY_SECONDS + STALL_SECONDS)),
            ):
                phases.append(load.begin(name))
                applied = await work
                print_phase(phases[-1])
                if applied:
                    say("  " + ", ".join(re.findall(r"\b\d{4}_\w+", applied)))
        say(f"{sum(phase.calls for phase in phases)} calls, {len(load.completed)} plans completed")
        problems = await violations(fleet, load, stalled)
    problems += [f"{phase.name}: {phase.lost} calls lost" for phase in phases if phase.lost]
    say("\n".join(problems) if problems else "no violation")
    return int(bool(problems))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--old", default=str(SOURCE))
    options = parser.parse_args()
    with older_version(options.old) as older:
        sys.exit(asyncio.run(main(options.servers, options.workers, options.agents, older)))
