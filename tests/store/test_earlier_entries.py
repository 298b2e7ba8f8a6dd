"""Audit entries as earlier versions stored them, with each change as an object."""

import json

import psycopg

from erasure_checks import verified
from full_ids import full_id
from org_env import OrgEnv
from waybook.store import audit
from waybook.store.audit import GENESIS, SealedEntry, changes_of, seal
from waybook.store.driver.connection import Results
from waybook.store.driver.queries import as_json_text
from waybook.store.plans import details

USAGE = {"inputTokens": 5, "outputTokens": 3}


def as_stored_earlier(entries: list[SealedEntry]) -> list[SealedEntry]:
    """Return the entries of a chain with one object per change, and with new seals."""
    previous, earlier = GENESIS, []
    for entry in entries:
        content = json.loads(entry.details)
        changes = [change.as_json() for change in changes_of(content)]
        new = entry._replace(details=as_json_text({**content, "changes": changes}))
        previous = seal(new, previous)
        earlier.append(new._replace(hash=previous))
    return earlier


async def test_audit_entries_of_earlier_formats_verify_and_read_the_same(
    own_world: OrgEnv,
) -> None:
    world, agent = own_world, own_world.agent
    plan = await agent.plan(3)
    await agent.submit(await agent.take(plan), usage=USAGE)
    added = {"action": "add_steps", "steps": [{"stepType": "search", "instructions": "More."}]}
    await agent.call(
        "modify_plan", planId=plan["planId"], modifications=[added], modificationRationale="So."
    )
    plan_id = full_id(plan["planId"])

    async def reads() -> Results:
        database = world.dispatcher.services.database
        return await database.read_org(
            agent.org_id,
            details.status_changes_statement(plan_id, None),
            details.added_statement(plan_id),
        )

    before = await reads()
    entries = await world.entries(agent.org_id, plan["planId"])
    earlier = as_stored_earlier(entries)
    assert [entry.details for entry in entries] != [entry.details for entry in earlier]
    with psycopg.connect(world.place.admin_dsn) as admin:
        for entry in earlier:
            admin.execute(
                """update audit_entry set details = %s, hash = %s, packed = null
                    where subject_id = %s and seq = %s""",
                (entry.details, entry.hash, plan_id, entry.seq),
            )
        admin.execute("update plan set audit_hash = %s where id = %s", (earlier[-1].hash, plan_id))
    assert (await verified(world, "plan", plan_id)).ok
    assert await reads() == before
    assert audit.first_broken(await world.entries(agent.org_id, plan["planId"])) is None
    await agent.work_through(plan)
    assert (await verified(world, "plan", plan_id)).ok
