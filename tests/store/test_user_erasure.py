"""Erasure of a user: a pseudonym replaces the name, work remains, and the audit stays valid."""

import json
import re
from collections.abc import Iterator
from datetime import UTC

import psycopg
import pytest

from database_dump import dump
from erasure_checks import LEFT, add_user, erased, rows_of, verdicts, verified
from foreign_records import all_foreign_records
from org_env import AgentClient, Body, OrgEnv, make_step
from waybook.core.decision_context import Channel
from waybook.core.pseudonyms import Pseudonymization, pseudonymize_details
from waybook.errors import InvalidInput, NotFound, Refused
from waybook.json_values import Json
from waybook.store import audit
from waybook.store.driver.queries import new_uuid

PSEUDONYM = re.compile(r"erased-[0-9a-f]{8}")


@pytest.fixture
def name() -> str:
    """Return a unique name with characters that are escaped in JSON."""
    return f'Zoë "Z" {new_uuid()}'


async def make_days_work(agent: AgentClient) -> Body:
    """Let the user call every tool and decide reviews; return a plan in progress."""
    await all_foreign_records(agent)
    rejected = await agent.take(await agent.plan())
    await agent.call("request_user_review", stepId=rejected["stepId"], summary="Look.")
    decided = {"planId": rejected["planId"], "decision": "reject", "idempotencyKey": "no"}
    await agent.call("submit_user_decision", **decided, feedback="Too long.")
    reviewed = await agent.take(await agent.plan())
    await agent.call("request_user_review", stepId=reviewed["stepId"], summary="Look.")
    again = {"planId": reviewed["planId"], "decision": "approve"}
    await agent.call("submit_user_decision", **again)
    await agent.refused("submit_user_decision", **again, idempotencyKey="again")
    plan = await agent.plan(4)
    # The audit keeps a shortened copy of the details of a long result.
    await agent.submit(await agent.take(plan), "The Nile. " * 500)
    assigned = {
        "subjectId": plan["planId"],
        "text": "Is this source reliable?",
        "assignee": agent.caller.user,
    }
    comment = await agent.call("comment", **assigned)
    await agent.call("comment", subjectId=plan["planId"], resolveIds=[comment["commentId"]])
    await agent.take(plan)
    await agent.call("get_next_step", planId=plan["planId"], another=True, idempotencyKey="more")
    return plan


async def test_erasing_a_user_removes_the_name_and_spares_other_orgs(
    own_world: OrgEnv, name: str
) -> None:
    world, place = own_world, own_world.place
    world.other_org_may_change = True
    agent = world.agent.acting_as(name)
    plan = await make_days_work(agent)
    await world.agent.acting_as(name, Channel.DASHBOARD).plan()
    await all_foreign_records(world.other_org.acting_as(name))
    for org in (agent, world.other_org):
        await add_user(place, org, name)
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            """insert into webhook_delivery (org_id, id, event, data, at, due_at, expires_at)
               values (%s, %s, 'x', %s, now(), now(), now())""",
            (agent.org_id, new_uuid(), json.dumps({"by": {"user": name}}, ensure_ascii=False)),
        )
    theirs = rows_of(place, world.other_org.org_id)
    erasure = await erased(world, world.agent, name)
    assert erasure.who is not None
    assert PSEUDONYM.fullmatch(erasure.who)
    quoted = json.dumps(name, ensure_ascii=False)[1:-1]
    left = str(rows_of(place, agent.org_id))
    assert name not in left
    assert quoted not in left.replace('""', '"').replace("\\\\", "\\")
    assert name.rsplit(maxsplit=1)[-1] not in left
    assert rows_of(place, world.other_org.org_id) == theirs
    step = (await agent.status(plan))["activeSteps"][0]
    assert erasure.who in str(step) or erasure.who in left
    assert [v.ok for v in await verdicts(world, agent.org_id)] == [True]
    # The fixture `own_world` also verifies every audit chain at the end.


async def test_database_dump_does_not_contain_name_of_an_erased_user(
    own_world: OrgEnv, name: str
) -> None:
    await make_days_work(own_world.agent.acting_as(name))
    await erased(own_world, own_world.agent, name)
    word = name.rsplit(maxsplit=1)[-1]
    assert [line for line in dump(own_world.place).splitlines() if word in line] == []


async def test_erasing_a_user_keeps_the_name_in_free_text(world: OrgEnv, name: str) -> None:
    agent = world.agent.acting_as(name)
    plan = await agent.plan([make_step(f"Ask {name}.")], name=f"Plan of {name}")
    await agent.submit(await agent.take(plan), {"by": name, "held_by": name})
    erasure = await erased(world, world.agent, name)
    context = await agent.acting_as("eve").call("get_research_context", planId=plan["planId"])
    assert context["name"] == f"Plan of {name}"
    assert f"Ask {name}." in str(context)
    assert "'held_by': " in str(context["steps"])
    entries = await world.entries(agent.org_id, plan["planId"])
    assert {entry.actor for entry in entries} == {erasure.who}


async def test_step_held_by_an_erased_user_can_still_be_submitted(world: OrgEnv, name: str) -> None:
    """The process that gets the result still has the plan in its cache, with the erased name."""
    agent = world.agent.acting_as(name)
    plan = await agent.plan(2)
    taken = await agent.take(plan, sessionId="s")
    await erased(world, world.agent, name)
    await world.agent.submit(taken, sessionId="s")
    await world.agent.work_through(plan)
    assert (await world.agent.status(plan))["status"] == "completed"


async def test_erasure_record_of_a_user_contains_only_the_pseudonym(
    world: OrgEnv, name: str
) -> None:
    await world.agent.acting_as(name).plan()
    erasure = await erased(world, world.agent, name, by=name)
    (verdict,) = await verdicts(world, world.agent.org_id)
    assert verdict.note is not None
    assert f"the user who is now {erasure.who} was erased at " in verdict.note
    assert f"by {erasure.who}; chains resealed: 1" in verdict.note


async def test_erasing_an_unknown_or_already_erased_user_is_refused(
    world: OrgEnv, name: str
) -> None:
    before = rows_of(world.place, world.agent.org_id)
    with pytest.raises(NotFound, match="ever did anything"):
        await erased(world, world.agent, name)
    with pytest.raises(InvalidInput, match="pseudonym of an erased user"):
        await erased(world, world.agent, "erased-1a2b3c4d")
    assert rows_of(world.place, world.agent.org_id) == before
    assert not LEFT & set(before)


@pytest.fixture
def tampering(own_world: OrgEnv) -> Iterator[psycopg.Connection]:
    own_world.is_sound = False
    with psycopg.connect(own_world.place.admin_dsn, autocommit=True) as admin:
        yield admin


async def test_erasing_a_user_with_a_broken_audit_chain_is_refused(
    own_world: OrgEnv, tampering: psycopg.Connection, name: str
) -> None:
    """New seals would hide that the chain is broken."""
    agent = own_world.agent.acting_as(name)
    plan = await agent.plan()
    tampering.execute(
        "update audit_entry set channel = 'cli' where subject_id = %s", (plan["planId"],)
    )
    before = rows_of(own_world.place, agent.org_id)
    with pytest.raises(Refused, match=f"the audit of plan {plan['planId']} is broken"):
        await erased(own_world, own_world.agent, name)
    assert rows_of(own_world.place, agent.org_id) == before


def manually_sealed(admin: psycopg.Connection, plan_id: str) -> None:
    """Change old audit entries, and compute their seals again, as an attacker could."""
    rows = admin.execute(
        """select subject_id::text, subject, seq, at, event, actor, channel, session,
                  details::text, hash
             from audit_entry where subject_id = %s order by seq""",
        (plan_id,),
    ).fetchall()
    previous = audit.GENESIS
    for entry in map(audit.SealedEntry._make, rows):
        forged = entry._replace(at=entry.at.astimezone(UTC), channel="cli")
        previous = audit.seal(forged, previous)
        admin.execute(
            "update audit_entry set channel = 'cli', hash = %s where subject_id = %s and seq = %s",
            (previous, plan_id, entry.seq),
        )
    admin.execute("update plan set audit_hash = %s where id = %s", (previous, plan_id))


async def test_audit_verification_reports_hashes_recomputed_after_user_erasure(
    own_world: OrgEnv, tampering: psycopg.Connection, name: str
) -> None:
    agent = own_world.agent.acting_as(name)
    plan = await agent.plan()
    await erased(own_world, own_world.agent, name)
    await own_world.agent.take(plan)
    manually_sealed(tampering, plan["planId"])
    verdict = await verified(own_world, "plan", plan["planId"])
    assert verdict.first_broken_entry == 1
    assert verdict.errors == ("entry 1 lacks the seal that it got when a user was erased",)


def test_pseudonym_replaces_only_user_fields_of_audit_details() -> None:
    to = Pseudonymization("ann", "erased-1")
    row: dict[str, Json] = {"created_by": "ann", "name": "ann", "content": {"by": "ann"}}
    changes: list[Json] = [
        ["plan", "p", {"*": [row]}],
        ["step", "s", {"held_by": ["ann", None], "title": ["ann", "bob"]}],
    ]
    details = pseudonymize_details({"takenFrom": "ann", "rationale": "ann", "changes": changes}, to)
    assert details["takenFrom"] == "erased-1"
    assert details["rationale"] == "ann"
    assert details["changes"] == [
        ["plan", "p", {"*": [{**row, "created_by": "erased-1"}]}],
        ["step", "s", {"held_by": ["erased-1", None], "title": ["ann", "bob"]}],
    ]
