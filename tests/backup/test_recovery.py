"""Recovery to a point in time, and failover to a standby, on PostgreSQL 15."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from backup.clusters import own_cluster
from backup.copies import all_rows, check_audit_of
from backup.test_anchors import compared, judge
from embedded_postgres.processes import eventually
from org_env import AgentClient, OrgEnv, make_env, make_step
from waybook.app.operations.anchors import write_anchor

WRITERS = 3
ACKNOWLEDGED_BEFORE_THE_KILL = 12
ARCHIVING = {
    "archive_mode": "on",
    "archive_command": "mkdir -p {home}/archive && cp %p {home}/archive/%f",
}


async def test_database_recovered_to_a_point_in_time_passes_anchor_check(tmp_path: Path) -> None:
    then, later = tmp_path / "then.jsonl", tmp_path / "later.jsonl"
    with own_cluster(**ARCHIVING) as cluster:
        archive = cluster.home / "archive"
        async with make_env(cluster.place) as world:
            plan = await world.agent.plan()
            copy = cluster.base_backup("--wal-method=none")
            await world.agent.work_through(plan)
            await write_anchor(judge(world), then)
            target = cluster.ask("select pg_current_wal_lsn()::text")
            mistake = await world.agent.plan()
            await write_anchor(judge(world), later)
        last = str(cluster.ask("select pg_walfile_name(pg_switch_wal())"))
        eventually((archive / last).exists, "the last WAL is archived")
        copy.recover(
            restore_command=f"cp {archive}/%f %p",
            recovery_target_lsn=str(target),
            recovery_target_inclusive="off",
        )
        await check_audit_of(copy.place)
        assert (await compared(copy.place, then)).ok
        missing = (await compared(copy.place, later)).errors
        assert [mistake["planId"] in error for error in missing[world.agent.org_id]] == [True]


async def test_synchronous_standby_has_every_acknowledged_call(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.jsonl"
    with own_cluster() as primary:
        standby = primary.base_backup("--write-recovery-conf")
        standby.start()
        primary.configure(synchronous_standby_names="*", synchronous_commit="on")
        primary.ask("select pg_reload_conf()")
        synchronous = "select count(*) > 0 from pg_stat_replication where sync_state = 'sync'"
        eventually(lambda: primary.ask(synchronous), "the standby is synchronous")
        async with make_env(primary.place) as world:
            # Do not compare the rows with the audit at the end, because the test kills the server.
            world.is_sound = False
            await write_anchor(judge(world), anchor)
            acknowledged = await killed_at_work(world, primary.kill)
        assert standby.ask("select pg_promote(true, 60)")
        there = " ".join(all_rows(standby.place)["plan"])
        assert [plan_id for plan_id in acknowledged if plan_id not in there] == []
        assert len(acknowledged) >= ACKNOWLEDGED_BEFORE_THE_KILL
        await check_audit_of(standby.place)
        assert (await compared(standby.place, anchor)).ok


async def test_audit_anchor_check_reports_plan_lost_in_failover(tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.jsonl"
    with own_cluster() as primary:
        standby = primary.base_backup("--write-recovery-conf")
        standby.start()
        async with make_env(primary.place) as world:
            # Do not compare the rows with the audit at the end, because the test kills the server.
            world.is_sound = False
            written = primary.ask("select pg_current_wal_lsn()::text")
            received = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            eventually(lambda: standby.ask(received, written), "the standby has all so far")
            standby.configure(primary_conninfo="host={home}/nowhere")
            standby.ask("select pg_reload_conf()")
            streaming = "select count(*) = 0 from pg_stat_replication"
            eventually(lambda: primary.ask(streaming), "the standby is cut off")
            plan = await world.agent.plan()
            await write_anchor(judge(world), anchor)
            await asyncio.to_thread(primary.kill)
        assert standby.ask("select pg_promote(true, 60)")
        await check_audit_of(standby.place)
        missing = (await compared(standby.place, anchor)).errors
        assert [plan["planId"] in error for error in missing[world.agent.org_id]] == [True]


async def killed_at_work(world: OrgEnv, kill: Callable[[], None]) -> list[str]:
    """Kill the server while agents create plans; return the ids of the plans in its replies."""
    acknowledged: list[str] = []
    enough = asyncio.Event()

    async def write(agent: AgentClient) -> None:
        args = {"name": "Rivers", "researchQuestion": "Which?", "steps": [make_step()]}
        while not (answer := await agent.ask("create_research_plan", args)).is_error:
            acknowledged.append(str(answer.body["planId"]))
            if len(acknowledged) >= ACKNOWLEDGED_BEFORE_THE_KILL:
                enough.set()

    writers = [asyncio.create_task(write(world.agent)) for _ in range(WRITERS)]
    await enough.wait()
    await asyncio.to_thread(kill)
    for writer in writers:
        writer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writer
    return acknowledged
