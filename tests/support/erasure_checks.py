"""Helpers for erasure tests: an org's rows as text, and verification results."""

from uuid import UUID

import psycopg

from auth_env import make_token
from org_env import AgentClient, OrgEnv
from postgres_servers import ServerDatabase
from waybook.app.operations.audit_verification import AuditVerdict, verify_subject
from waybook.app.operations.erasure import erase_org, erase_user, verify_erasures
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.core.decision_context import Channel
from waybook.store.audit import Subject
from waybook.store.driver.queries import new_uuid
from waybook.store.maintenance.erasure import Erased

#: Tables that record an erasure, so they keep rows about an erased org or user.
LEFT = {"erasure", "tombstone"}


def ignore_progress(*_: int) -> None:
    """Do nothing with a progress report."""


def slug_of(agent: AgentClient) -> str:
    return f"org-{agent.org_id}"


def tables(place: ServerDatabase) -> list[str]:
    with psycopg.connect(place.admin_dsn) as admin:
        cursor = admin.execute(
            """select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid
                where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
                  and a.attname = 'org_id' and not c.relispartition"""
        )
        return sorted(str(row[0]) for row in cursor.fetchall())


def rows_of(place: ServerDatabase, org_id: UUID) -> dict[str, list[str]]:
    """Return every row of an org as text, by table; tables without rows are omitted."""
    with psycopg.connect(place.admin_dsn) as admin:
        rows_by_table = {
            table: [
                str(row[0])
                for row in admin.execute(
                    f"select t::text from {table} t where org_id = %s order by 1".encode(),  # noqa: S608 - name of a table
                    (org_id,),
                ).fetchall()
            ]
            for table in tables(place)
        }
    return {table: rows for table, rows in rows_by_table.items() if rows}


async def add_user(place: ServerDatabase, agent: AgentClient, name: str) -> None:
    """Add a user who has a token and a web session, and who creates a second user."""
    credential = await make_token(agent, name, email=f"{name}@example.org")
    await make_token(agent.acting_as(name), new_uuid())
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(
            """insert into web_session (org_id, id, user_id, token_id, hash, created_at,
                                        last_seen_at, expires_at)
               values (%s, %s, %s, %s, sha256(%s::text::bytea), now(), now(), now())""",
            (agent.org_id, new_uuid(), credential.user.id, credential.token.id, new_uuid()),
        )


async def verdicts(world: OrgEnv, org_id: UUID) -> list[AuditVerdict]:
    caller = Caller(org_id=org_id, user="judge", channel=Channel.CLI)
    return await verify_erasures(RequestContext(services=world.dispatcher.services, caller=caller))


async def verified(world: OrgEnv, kind: str, subject_id: str) -> AuditVerdict:
    judge = RequestContext(services=world.dispatcher.services, caller=world.agent.caller)
    return await verify_subject(judge, Subject(kind, subject_id))


async def erased_org(place: ServerDatabase, slug: str) -> Erased:
    return await erase_org(place.owner_dsn, slug, by="operator", progress=ignore_progress)


async def erased(world: OrgEnv, agent: AgentClient, name: str, by: str = "operator") -> Erased:
    slug = slug_of(agent)
    return await erase_user(world.place.owner_dsn, slug, name, by=by, progress=ignore_progress)
