"""Another org's activity changes nothing we are shown: no text, no count, no figure."""

import re
from collections.abc import Mapping

import httpx2

from belongings import everything
from transport.whole_house import a_house, a_visitor, routes_of, things_of
from waybook.background import index_all_orgs
from worlds import Agent, World

#: Never ends: see `test_live.py`.
STREAMS = {"/live"}
#: About the whole server, for its operator.
OPERATORS = {"/metrics"}
ELSE = {
    "ending": "json",
    "form": "csv",
    "slug": "deep-research",
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
    agent: Agent, client: httpx2.AsyncClient, named: Mapping[str, str]
) -> dict[str, str]:
    """Return every readable page, with its headers."""
    contents = {}
    for route in routes_of(a_house(agent)):
        if "GET" in (route.methods or ()) and route.path not in STREAMS | OPERATORS:
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path).format(**ELSE, **named)
            reply = await client.get(path, headers={"accept": "text/html"})
            assert reply.status_code == 200, path
            text = re.sub(r'name="key" value="[^"]+"', "", reply.text)
            contents[path] = f"{reply.headers}\n{text}"
    return contents


async def indexed(agent: Agent) -> None:
    """Wait until everything is indexed."""
    while await index_all_orgs(agent.dispatcher.services):
        pass


async def test_pages_and_lists_do_not_change_with_other_org_activity(face_world: World) -> None:
    world, agent = face_world, face_world.agent
    world.neighbour_may_change = True
    await everything(agent)
    named = await things_of(agent)
    await indexed(agent)
    listed = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    await world.dispatcher.calls.flush()
    async with a_visitor(a_house(agent)) as client:
        before = await pages(agent, client, named)
        await everything(world.neighbour)
        world.dispatcher.calls.dropped_of[world.neighbour.org_id] += 7
        await indexed(agent)
        after = await pages(agent, client, named)
    assert {path for path in before if before[path] != after[path]} == set()
    again = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    assert again == listed
