"""Rolling restarts and a migration of a fleet under load: `make fleet`.

    python -m fleet.run [--servers 3] [--workers 1] [--agents 8] [--old FOLDER]

Agents work through HAProxy, while every server is replaced one after the other, while a newer
version migrates the database, while its servers replace the older ones, and while the older ones
return. The newer version is a copy of this one with one more migration; `--old` names the `src`
folder of another version to start with. The run fails if a call was lost, if a result is stored
other than once, or if background work was done twice.
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median, quantiles

from faults.cluster import SOURCE
from faults.wire import Address, Wire
from fleet.load import BALANCER, Load, Phase
from fleet.servers import HOST, STALL_SECONDS, Fleet, running_fleet
from waybook.accounts.manage import NewUser
from waybook.app.accounts.members import TokenRequest, add_token, add_user
from waybook.app.request.request_context import RequestContext
from waybook.bootstrap import start_application
from waybook.core.decision_context import Channel, Scope
from waybook.settings_reading import read_settings
from waybook.store.maintenance.migrate import bundled_migrations

STEADY_SECONDS = 5.0
STALLED_PLANS = 10
SCOPES = (Scope.PLAN_READ, Scope.PLAN_WRITE)
PLANTED = """-- Oldest compatible migration: {newest:04}
alter table plan add column if not exists planted text;
create index planted on plan (org_id, planted) where planted is not null;
"""


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def newer_version(home: Path) -> Path:
    """Return a copy of this version with one more migration, which adds a column and an index."""
    copy = home / "newer"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    newest = bundled_migrations()[-1].number
    name = f"{newest + 1:04}_planted.sql"
    migrations = copy / "waybook" / "store" / "migrations"
    (migrations / name).write_text(PLANTED.format(newest=newest), "utf-8")
    return copy


async def make_token(fleet: Fleet) -> str:
    """Create a user with a token, as an operator does."""
    flags = {"database_url": fleet.dsn("builder"), "data_dir": fleet.home}
    settings = read_settings(flags, {}, Path("/nonexistent")).settings
    async with start_application(settings, sweeping=False) as here:
        call = RequestContext(services=here.dispatcher.services, caller=here.caller(Channel.CLI))
        await add_user(call, NewUser(name="ann", scopes=SCOPES))
        request = TokenRequest(user="ann", label="fleet", scopes=SCOPES)
        return (await add_token(call, request)).secret


@asynccontextmanager
async def working(load: Load, agents: int) -> AsyncIterator[None]:
    """Let agents work within the block."""
    task = asyncio.create_task(load.run(agents))
    try:
        yield
    finally:
        load.is_running = False
        await task


async def roll(fleet: Fleet, source: Path) -> None:
    """Replace every server, one after the other."""
    for name in fleet.names:
        await fleet.replace_server(name, source)


async def stall(load: Load, address: Address, token: str) -> list[str]:
    """Claim the first step of some plans, and leave it; return the ids of the plans."""
    wire, plans = Wire({BALANCER: address}, token), []
    for number in range(STALLED_PLANS):
        steps = [{"stepType": "search", "instructions": "Leave it."}]
        plan = {"name": f"left {number}", "researchQuestion": "Who notices?", "steps": steps}
        made = await load.call(wire, "create_research_plan", plan)
        await load.call(wire, "get_next_step", {"planId": made["planId"], "sessionId": "gone"})
        plans.append(str(made["planId"]))
    wire.close()
    return plans


async def violations(fleet: Fleet, load: Load) -> list[str]:
    """Return what is wrong in the database after the load."""
    problems = []
    ((results,),) = await fleet.sql("select count(*) from step_result")
    expected = sum(load.completed.values())
    # Plans that were not finished when the agents stopped have results too.
    if results < expected:
        problems.append(
            f"{expected} results were acknowledged in completed plans, {results} stored"
        )
    rows = await fleet.sql(
        """select a.subject_id, a.entries, coalesce(s.steps, 0)
             from (select subject_id, count(*) entries from audit_entry
                    where event = 'step_completed' group by subject_id) a
             left join (select plan_id, count(*) steps from plan_step
                         where status = 'completed' group by plan_id) s on s.plan_id = a.subject_id
            where a.entries is distinct from s.steps"""
    )
    problems += [
        f"plan {plan}: {count} completions of {steps} steps" for plan, count, steps in rows
    ]
    leaders = await fleet.sql(
        "select count(*) from pg_locks where locktype = 'advisory' and granted and objid > 0"
    )
    if leaders != [(1,)]:
        problems.append(f"there is not one leader: {leaders}")
    stalls = await fleet.sql(
        """select subject_id, count(*) from audit_entry
            where event = 'plan_modified' and details ->> 'action' = 'stall_detected'
            group by subject_id having count(*) > 1"""
    )
    problems += [f"plan {plan} was marked as stalled {count} times" for plan, count in stalls]
    return problems


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
    """Run all phases, print their counts, and return the exit status."""
    async with running_fleet(servers, workers) as fleet:
        newer, token = newer_version(fleet.home), await make_token(fleet)
        for name in fleet.names:
            fleet.start_server(name, old)
        for name in fleet.names:
            await fleet.await_ready(name)
        address = Address(fleet.ports[BALANCER], f"{HOST}:{fleet.ports[BALANCER]}")
        load = Load(address, token)
        phases = []
        say(f"{servers} servers with {workers} workers, {agents} agents, HAProxy, pgbouncer")
        say(f"{'phase':34}{'calls':>7}{'p50 ms':>9}{'p99 ms':>9}{'healed':>8}{'lost':>6}  failed")
        async with working(load, agents):
            for name, work in (
                ("steady", asyncio.sleep(STEADY_SECONDS)),
                ("stalls", stall(load, address, token)),
                ("rolling restart", roll(fleet, old)),
                ("migration by the newer version", fleet.migrate(newer)),
                ("newer servers replace older ones", roll(fleet, newer)),
                ("older servers return (rollback)", roll(fleet, old)),
                ("steady, and stalls are noticed", asyncio.sleep(STEADY_SECONDS + STALL_SECONDS)),
            ):
                phases.append(load.begin(name))
                await work
                print_phase(phases[-1])
        problems = await violations(fleet, load)
    problems += [f"{phase.name}: {phase.lost} calls lost" for phase in phases if phase.lost]
    say(f"{sum(phase.calls for phase in phases)} calls, {len(load.completed)} plans completed")
    say("\n".join(problems) if problems else "no violation")
    return int(bool(problems))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--agents", type=int, default=8)
    parser.add_argument("--old", type=Path, default=SOURCE)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.servers, options.workers, options.agents, options.old)))
