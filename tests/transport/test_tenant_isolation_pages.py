"""Activity of one org does not change the pages of another: no text, count or total."""

import re
from collections.abc import Mapping

import httpx2
import pytest

from foreign_records import all_foreign_records
from org_env import AgentClient, OrgEnv
from transport.full_app import full_app, make_client, routes_of, sample_ids
from waybook.background import index_all_orgs
from waybook.store.calls import LoggedCall

#: Routes whose response never ends. They are tested in `test_live.py`.
STREAMS = {"/live"}
#: Routes that show data about the whole server to its operator.
OPERATORS = {"/metrics"}
ELSE = {
    "ending": "json",
    "form": "csv",
    "slug": "deep-research",
    "agent": "ann",
    "version": "x",
    "name": "live.js",
}
LISTS: Mapping[str, Mapping[str, object]] = {
    "list_active_plans": {},
    "list_dags": {},
    "list_skills": {},
    "search_sources": {"query": "longest river Nile"},
}


async def pages(
    agent: AgentClient, client: httpx2.AsyncClient, named: Mapping[str, str]
) -> dict[str, str]:
    contents = {}
    for route in routes_of(full_app(agent)):
        if "GET" in (route.methods or ()) and route.path not in STREAMS | OPERATORS:
            # The link of a stage has another secret than the link of a review.
            path = route.path.replace("{secret}/feedback", "{stage_secret}/feedback")
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", path).format(**ELSE, **named)
            reply = await client.get(path, headers={"accept": "text/html"})
            assert reply.status_code == 200, path
            text = re.sub(r'name="(?:key|token)" value="[^"]+"', "", reply.text)
            # The compressed length depends on the random keys and tokens, which are removed from
            # the text.
            headers = {k: v for k, v in reply.headers.items() if k != "content-length"}
            contents[path] = f"{headers}\n{text}"
    return contents


async def indexed(agent: AgentClient) -> None:
    while await index_all_orgs(agent.dispatcher.services):
        pass


async def test_activity_of_another_org_changes_no_page_or_reply(
    face_world: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, agent, log = face_world, face_world.agent, face_world.dispatcher.calls
    world.other_org_may_change = True
    await all_foreign_records(agent)
    named = await sample_ids(agent)
    await indexed(agent)
    listed = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    await log.flush()
    record = log.record

    def record_other_org(call: LoggedCall) -> None:
        # Some pages call a tool, which would add a call of this org to the page of calls.
        if call.org_id == world.other_org.org_id:
            record(call)

    monkeypatch.setattr(log, "record", record_other_org)
    async with make_client(full_app(agent)) as client:
        before = await pages(agent, client, named)
        await all_foreign_records(world.other_org)
        await log.flush()
        log.dropped_of[world.other_org.org_id] += 7
        await indexed(agent)
        after = await pages(agent, client, named)
    assert {path for path in before if before[path] != after[path]} == set()
    again = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    assert again == listed
