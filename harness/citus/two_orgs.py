"""Test with two orgs on different nodes of a cluster, which take turns on one connection."""

from typing import Final

import psycopg

from org_env import AgentClient, OrgEnv, make_env
from postgres_servers import ServerDatabase

ROUNDS: Final = 8
#: Maximum number of tries to create two orgs on different nodes. Half of the tries succeed.
MAX_ATTEMPTS: Final = 40
NODES: Final = """
select count(distinct p.nodeport)
  from unnest(%s::uuid[]) as o (org_id)
  join pg_dist_shard_placement p
    on p.shardid = get_shard_id_for_distribution_column('plan', o.org_id)
"""


async def alternate(place: ServerDatabase) -> str:
    """Let two orgs work in turn, and check what each of them sees; return a line for the report.

    Raises:
        AssertionError: an org saw a text of the other org, or its rows do not match its audit.
    """
    for _ in range(MAX_ATTEMPTS):
        async with make_env(place, pool_size=1) as world:
            if are_apart(world):
                world.other_org_may_change = True
                for _ in range(ROUNDS):
                    await work(world.agent, "ours", "theirs")
                    await work(world.other_org, "theirs", "ours")
                return f"two orgs on two nodes took turns on one connection {ROUNDS} times"
    raise AssertionError(f"no two orgs on different nodes after {MAX_ATTEMPTS} tries")


def are_apart(world: OrgEnv) -> bool:
    """Return whether the two orgs are on different nodes."""
    orgs = [world.agent.org_id, world.other_org.org_id]
    with psycopg.connect(world.place.admin_dsn) as admin:
        (count,) = admin.execute(NODES, (orgs,)).fetchone() or (0,)
        return int(count) == len(orgs)


async def work(agent: AgentClient, own: str, foreign: str) -> None:
    plan = await agent.plan(2, name=f"Plan of {own}")
    for _ in range(2):
        await agent.submit(await agent.take(plan), own)
    listed = repr([await agent.call("list_active_plans"), await agent.status(plan)])
    assert own in listed
    assert foreign not in listed
