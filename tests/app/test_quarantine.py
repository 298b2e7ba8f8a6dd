"""A passage (piece of a text) whose indexing breaks the connection is skipped for a day."""

import logging

import psycopg
import pytest

from background_rounds import index_all
from org_env import NOON, OrgEnv
from postgres_servers import ServerDatabase
from waybook.app.operations.checks import CheckResult, CheckState
from waybook.app.operations.diagnostics import about_quarantine, try_everything
from waybook.app.operations.indexing import MAX_BREAKS
from waybook.app.request.caller import Caller
from waybook.app.request.request_context import RequestContext
from waybook.background import index_all_orgs
from waybook.core.decision_context import Channel
from waybook.errors import Unavailable

#: SQL that makes PostgreSQL close the connection when a vector is stored. An extension that was
#: built for another CPU has the same effect.
DEADLY = """
create function die() returns trigger language plpgsql security definer as $$
begin
  perform pg_terminate_backend(pg_backend_pid());
  return new;
end $$;
create trigger die before insert on passage_embedding for each row execute function die()
"""
PASSAGE = """
insert into passage (org_id, subject, subject_id, part, kind, title, body, created_at)
values (%s, 'artifact', gen_random_uuid(), 1, 'note', 'Lakes', 'A glacial lake.', %s)
"""


def run(place: ServerDatabase, text: str, values: tuple[object, ...] = ()) -> None:
    with psycopg.connect(place.admin_dsn) as admin:
        admin.execute(text.encode(), values or None)


@pytest.fixture
async def env_with_breaking_passage(own_world: OrgEnv) -> OrgEnv:
    run(own_world.place, PASSAGE, (own_world.agent.org_id, NOON))
    run(own_world.place, DEADLY)
    return own_world


async def reported(world: OrgEnv, *, everywhere: bool = True) -> CheckResult:
    caller = Caller(org_id=world.agent.org_id, user="ann", channel=Channel.CLI)
    call = RequestContext(services=world.dispatcher.services, caller=caller)
    return await about_quarantine(call, everywhere=everywhere)


async def break_until_set_aside(world: OrgEnv) -> None:
    for _ in range(MAX_BREAKS):
        with pytest.raises(Unavailable):
            await index_all_orgs(world.dispatcher.services)


async def test_passage_that_breaks_the_indexing_connection_twice_is_skipped(
    env_with_breaking_passage: OrgEnv, caplog: pytest.LogCaptureFixture
) -> None:
    assert (await reported(env_with_breaking_passage)).state is CheckState.OK
    await break_until_set_aside(env_with_breaking_passage)
    with caplog.at_level(logging.ERROR):
        assert await index_all_orgs(env_with_breaking_passage.dispatcher.services) == 0
    assert "1 passages broke the connection to the database 2 times" in caplog.text
    for everywhere in (True, False):
        result = await reported(env_with_breaking_passage, everywhere=everywhere)
        assert (result.state, result.message[:21]) == (CheckState.WARN, "1 passages are left o")
        assert "search_vectors = portable" in (result.remedy or "")


async def test_other_passages_are_indexed_although_a_passage_is_quarantined(
    env_with_breaking_passage: OrgEnv,
) -> None:
    await break_until_set_aside(env_with_breaking_passage)
    assert await index_all_orgs(env_with_breaking_passage.dispatcher.services) == 0
    run(env_with_breaking_passage.place, "drop trigger die on passage_embedding")
    run(env_with_breaking_passage.place, PASSAGE, (env_with_breaking_passage.agent.org_id, NOON))
    await index_all(env_with_breaking_passage.dispatcher.services)
    reply = await env_with_breaking_passage.agent.call("search_sources", query="icy reservoir")
    assert len(reply["hits"]) == 1


async def test_quarantined_passage_is_indexed_again_after_a_day(
    env_with_breaking_passage: OrgEnv,
) -> None:
    await break_until_set_aside(env_with_breaking_passage)
    assert await index_all_orgs(env_with_breaking_passage.dispatcher.services) == 0
    run(env_with_breaking_passage.place, "drop trigger die on passage_embedding")
    env_with_breaking_passage.clock.advance(days=1)
    assert (await reported(env_with_breaking_passage)).state is CheckState.OK
    await index_all(env_with_breaking_passage.dispatcher.services)
    assert (
        len(
            (await env_with_breaking_passage.agent.call("search_sources", query="icy reservoir"))[
                "hits"
            ]
        )
        == 1
    )


async def test_doctor_search_check_fails_without_embedding_table(own_world: OrgEnv) -> None:
    caller = Caller(org_id=own_world.agent.org_id, user="ann", channel=Channel.CLI)
    call = RequestContext(services=own_world.dispatcher.services, caller=caller)
    sound = {finding.name: finding for finding in await try_everything(call)}
    assert {finding.state for finding in sound.values()} == {CheckState.OK}
    assert sound["search"].message.startswith("full text and vectors")
    run(own_world.place, "alter table passage_embedding rename to elsewhere")
    broken = {finding.name: finding for finding in await try_everything(call)}
    assert broken["search"].state is CheckState.FAIL
    assert "passage_embedding" in broken["search"].message
    assert broken["write"].state is broken["render"].state is CheckState.OK


async def test_doctor_reports_a_test_search_that_breaks_the_connection(own_world: OrgEnv) -> None:
    caller = Caller(org_id=own_world.agent.org_id, user="ann", channel=Channel.CLI)
    call = RequestContext(services=own_world.dispatcher.services, caller=caller)
    run(own_world.place, DEADLY)
    broken = {finding.name: finding for finding in await try_everything(call)}
    assert broken["search"].state is CheckState.FAIL
    assert broken["render"].state is CheckState.OK


async def test_doctor_reports_a_failed_test_write(own_world: OrgEnv) -> None:
    caller = Caller(org_id=own_world.agent.org_id, user="ann", channel=Channel.CLI)
    call = RequestContext(services=own_world.dispatcher.services, caller=caller)
    await try_everything(call)
    (rows,) = await call.read("select from passage")
    assert rows == []
    run(own_world.place, "alter table passage add check (kind <> 'waybook doctor')")
    broken = {finding.name: finding for finding in await try_everything(call)}
    assert broken["write"].state is CheckState.FAIL
    assert "violates check constraint" in broken["write"].message
