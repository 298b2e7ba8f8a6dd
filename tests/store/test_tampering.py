"""Verification of the audit reveals tampering by the database owner.

No other role can tamper: the server's role can only read the audit and append to it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC
from typing import NamedTuple

import psycopg
import pytest

from erasure_checks import verified
from org_env import AgentClient, OrgEnv, make_env
from postgres_servers import Server, ServerDatabase, new_database
from waybook.store import audit
from waybook.store.maintenance.migrate import APP_ROLE


@pytest.mark.parametrize("table", ["audit_entry", "erasure", "tombstone"])
def test_server_database_role_can_only_read_and_insert_audit_rows(
    shared_place: ServerDatabase, table: str
) -> None:
    with psycopg.connect(shared_place.admin_dsn) as admin:
        granted = admin.execute(
            """select distinct x.privilege_type
                 from pg_class c, aclexplode(c.relacl) x
                where x.grantee = %s::regrole
                  and c.oid in (select relid from pg_partition_tree(%s::regclass)
                                 union select %s::regclass)""",
            (APP_ROLE, table, table),
        ).fetchall()
    may = {str(row[0]) for row in granted}
    assert may == ({"SELECT", "INSERT"} if table == "audit_entry" else {"SELECT"})


class Chain(NamedTuple):
    kind: str
    id: str
    entries: int


async def make_plan(agent: AgentClient) -> Chain:
    plan = await agent.plan(2)
    await agent.work_through(plan)
    return Chain("plan", plan["planId"], 5)


async def make_run(agent: AgentClient) -> Chain:
    run = await agent.run(models="a")
    await agent.submit_documents(await agent.job(run))
    return Chain("run", run["runId"], 4)


async def make_skill_execution(agent: AgentClient) -> Chain:
    started = await agent.call("start_skill", name="survey", sessionId="s")
    execution = started["skillExecutionId"]
    await agent.call("complete_skill", skillExecutionId=execution)
    return Chain("skill_execution", execution, 2)


async def make_artifact(agent: AgentClient) -> Chain:
    stored = await agent.call("store_research", kind="note", title="Nile", content="Long.")
    return Chain("artifact", stored["artifactId"], 1)


MAKERS: dict[str, Callable[[AgentClient], Awaitable[Chain]]] = {
    "plan": make_plan,
    "run": make_run,
    "skill execution": make_skill_execution,
    "artifact": make_artifact,
}

CHANGED = "does not match its seal: it was changed"
#: SQL statements that tamper with one audit entry.
TO_AN_ENTRY = {
    "its details are changed": "update ENTRIES set details = '{\"changes\": []}' WHERE",
    "its details get a blank": "update ENTRIES set details = (details::text || ' ')::json WHERE",
    "its actor is changed": "update ENTRIES set actor = 'mallory' WHERE",
    "its time is changed": "update ENTRIES set at = at - interval '1 microsecond' WHERE",
    "its event is changed": "update ENTRIES set event = 'session_resumed' WHERE",
    "its door is changed": "update ENTRIES set channel = 'sweep' WHERE",
    "its session is changed": "update ENTRIES set session = 'another' WHERE",
    "its subject is changed": "update ENTRIES set subject = 'job' WHERE",
    "its seal is changed": "update ENTRIES set hash = sha256('x') WHERE",
    "its seal is cut": "update ENTRIES set hash = substr(hash, 1, 31) WHERE",
}
DELETE = "delete from ENTRIES WHERE"
MOVE = "update ENTRIES set seq = %(to)s WHERE"
COPY = """insert into ENTRIES
          select org_id, subject_id, %(new)s, at + interval '1 hour', subject, event, actor,
                 channel, session, details, hash from ENTRIES WHERE"""
FORGE = "update ENTRIES set actor = 'mallory', hash = %(hash)s WHERE"
WORDS = {"ENTRIES": "audit_entry", "WHERE": "where subject_id = %(id)s and seq = %(at)s"}


class Owner:
    """Database owner who tampers with one audit chain."""

    def __init__(self, connection: psycopg.Connection, chain: Chain) -> None:
        self._connection = connection
        self._chain = chain

    def does(self, statement: str, **values: object) -> None:
        for word, replacement in (*WORDS.items(), ("HEAD", self._chain.kind)):
            statement = statement.replace(word, replacement)
        assert self._execute(statement, {"id": self._chain.id, **values}).rowcount

    def entries(self) -> list[audit.SealedEntry]:
        rows = self._execute(
            """select subject_id::text, subject, seq, at, event, actor, channel, session,
                      details::text, hash
                 from audit_entry where subject_id = %(id)s order by seq""",
            {"id": self._chain.id},
        )
        entries = map(audit.SealedEntry._make, rows)
        return [entry._replace(at=entry.at.astimezone(UTC)) for entry in entries]

    def _execute(self, statement: str, values: Mapping[str, object]) -> psycopg.Cursor:
        # On a cluster, only settings of a transaction reach the nodes, so set the org in each
        # transaction.
        with self._connection.transaction():
            (org_id,) = self._connection.execute("show app.org_id").fetchone() or ("",)
            self._connection.execute(f"set local app.org_id = '{org_id}'".encode())
            return self._connection.execute(statement.encode(), values)


@pytest.fixture(scope="module")
def tampered_place(server: Server) -> Iterator[ServerDatabase]:
    """Yield a separate database, because tampering would affect other tests."""
    with new_database(server) as place:
        yield place


@pytest.fixture
async def world(tampered_place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(tampered_place) as made:
        yield made


@pytest.fixture
def owning(world: OrgEnv) -> Iterator[psycopg.Connection]:
    """Yield a connection of the database owner with the org set."""
    with psycopg.connect(world.place.owner_dsn, autocommit=True) as connection:
        connection.execute(f"set app.org_id = '{world.agent.org_id}'".encode())
        yield connection


@pytest.fixture(params=MAKERS)
async def chain(request: pytest.FixtureRequest, world: OrgEnv, agent: AgentClient) -> Chain:
    world.is_sound = False
    made = await MAKERS[request.param](agent)
    verdict = await verified(world, made.kind, made.id)
    assert (verdict.ok, verdict.entries) == (True, made.entries)
    return made


@pytest.fixture
def owner(owning: psycopg.Connection, chain: Chain) -> Owner:
    return Owner(owning, chain)


async def reported_damage(world: OrgEnv, chain: Chain) -> tuple[int | None, str]:
    """Return the number and error of the first broken entry, as verification reports them."""
    verdict = await verified(world, chain.kind, chain.id)
    assert verdict.subject.id == chain.id
    assert not verdict.ok, "the audit does not show it"
    return verdict.first_broken_entry, verdict.errors[0]


async def test_audit_verification_reports_any_changed_entry(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    original = owner.entries()
    for at in range(1, chain.entries + 1):
        for how, statement in TO_AN_ENTRY.items():
            owner.does(statement, at=at)
            assert await reported_damage(world, chain) == (at, f"entry {at} {CHANGED}"), how
            owner.does(DELETE, at=at)
            put_back(owner, original[at - 1])
    assert (await verified(world, chain.kind, chain.id)).ok


def put_back(owner: Owner, entry: audit.SealedEntry) -> None:
    owner.does(
        """insert into audit_entry (subject_id, subject, seq, at, event, actor, channel, session,
                                    details, hash)
           values (%(id)s, %(subject)s, %(seq)s, %(at)s, %(event)s, %(actor)s, %(channel)s,
                   %(session)s, %(details)s, %(hash)s)""",
        **{**entry._asdict(), "id": entry.subject_id},
    )


async def test_audit_verification_reports_any_deleted_entry_as_missing(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    original = owner.entries()
    for at in range(1, chain.entries + 1):
        owner.does(DELETE, at=at)
        broken, message = await reported_damage(world, chain)
        assert (broken, message[: len(f"entry {at} is missing")]) == (at, f"entry {at} is missing")
        put_back(owner, original[at - 1])


async def test_audit_verification_reports_a_deleted_chain_as_missing(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    owner.does("delete from audit_entry where subject_id = %(id)s")
    message = f"entry 1 is missing: {chain.entries} were written"
    assert await reported_damage(world, chain) == (1, message)


async def test_audit_verification_reports_an_added_entry(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    last = chain.entries
    owner.does(COPY, at=last, new=last + 1)
    message = f"entry {last + 1} was added from outside: {last} were written"
    assert await reported_damage(world, chain) == (last + 1, message)


async def test_audit_verification_reports_an_added_entry_with_valid_hash(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    last = owner.entries()[-1]
    forged = last._replace(seq=last.seq + 1, actor="mallory")
    put_back(owner, forged._replace(hash=audit.seal(forged, last.hash)))
    assert (await reported_damage(world, chain))[0] == last.seq + 1


async def test_audit_verification_reports_a_duplicate_entry(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    """The primary key includes the time, so two entries can have the same number."""
    owner.does(COPY, at=1, new=1)
    assert await reported_damage(world, chain) == (
        1,
        "entry 1 is there twice: one was added from outside",
    )


async def test_audit_verification_reports_swapped_entries(
    world: OrgEnv, agent: AgentClient, owning: psycopg.Connection
) -> None:
    for make in (make_plan, make_run):
        world.is_sound = False
        chain = await make(agent)
        for at, to in ((1, 99), (2, 1), (99, 2)):
            Owner(owning, chain).does(MOVE, at=at, to=to)
        assert await reported_damage(world, chain) == (1, f"entry 1 {CHANGED}")


async def test_audit_verification_reports_a_chain_with_all_hashes_recomputed(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    previous = audit.GENESIS
    for entry in owner.entries():
        forged = entry._replace(actor="mallory")
        previous = audit.seal(forged, previous)
        owner.does(FORGE, at=entry.seq, hash=previous)
    message = f"entry {chain.entries} is not the one that was written last: its seal is another"
    assert await reported_damage(world, chain) == (chain.entries, message)


async def test_audit_verification_reports_a_changed_record_of_the_chain_end(
    world: OrgEnv, chain: Chain, owner: Owner
) -> None:
    owner.does("update HEAD set audit_seq = audit_seq + 1 where id = %(id)s")
    assert (await reported_damage(world, chain))[0] == chain.entries + 1
    owner.does("update HEAD set audit_seq = audit_seq - 1 where id = %(id)s")
    owner.does("update HEAD set audit_hash = sha256('x') where id = %(id)s")
    assert (await reported_damage(world, chain))[0] == chain.entries
