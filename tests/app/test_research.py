"""Stored research: it can be found immediately, is complete, and is visible only in its org."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from fake_endpoint import Writer, answer, fake_endpoint
from org_env import AgentClient, Body, OrgEnv
from waybook.app.request.search_backend import SearchBackend
from waybook.background import index_all_orgs
from waybook.integrations.embeddings import EmbeddingsClient
from waybook.research.embedding import builtin_embedder
from waybook.store.audit import changes_of

#: Run these tests on PostgreSQL 15 too, where searches work without the full-text index.
pytestmark = pytest.mark.every_server

FLOOD = "When an avalanche falls into a glacial lake the wave cuts the dam of loose moraine."
PAGE: Body = {
    "url": "https://example.org/lakes",
    "title": "Glacial lakes",
    "quote": "Moraine dams break.",
    "retrievedAt": "2030-01-01T10:00:00Z",
}
NOTE: Body = {"kind": "note", "title": "Floods", "content": FLOOD}


async def search_hits(agent: AgentClient, query: str, **more: object) -> list[Body]:
    return list((await agent.call("search_sources", query=query, **more))["hits"])


async def rows(world: OrgEnv, table: str) -> int:
    counting = f"select count(*) from {table}"  # noqa: S608 - name of a table
    (result,) = await world.database.read_org(world.agent.org_id, counting)
    return int(result[0][0])


async def test_stored_research_appears_in_next_search(world: OrgEnv) -> None:
    agent = world.agent
    taken = await agent.take(await agent.plan())
    where = {"planId": taken["planId"], "stepId": taken["stepId"]}
    stored = await agent.call("store_research", **NOTE, **where, sources=[PAGE], tags=["ice"])
    (hit,) = await search_hits(agent, "moraine dam")
    assert (hit["id"], hit["subject"], hit["version"]) == (stored["artifactId"], "artifact", 1)
    assert (hit["planId"], hit["stepId"]) == (taken["planId"], taken["stepId"])
    assert (hit["createdBy"], hit["tags"]) == ("ann", ["ice"])
    assert "**dam**" in hit["snippet"]
    words = hit["why"][0]
    assert (words["by"], words["rank"], words["words"]) == ("words", 1, ["dam", "moraine"])
    assert hit["sources"] == [
        {
            "sourceId": stored["sourceIds"][0],
            "url": PAGE["url"],
            "title": PAGE["title"],
            "retrievedAt": "2030-01-01T10:00:00+00:00",
        }
    ]
    read = await agent.call(hit["read"]["tool"], **hit["read"]["args"])
    assert (read["content"], read["left"]) == (FLOOD, 0)


async def test_store_research_with_step_id_links_plan_of_the_step(agent: AgentClient) -> None:
    taken = await agent.take(await agent.plan())
    stored = await agent.call("store_research", **NOTE, stepId=taken["stepId"].upper())
    assert (stored["planId"], stored["stepId"]) == (taken["planId"], taken["stepId"])


async def test_store_research_refuses_step_that_belongs_to_other_plan(agent: AgentClient) -> None:
    plan, taken = await agent.plan(), await agent.take(await agent.plan())
    where = {"planId": plan["planId"], "stepId": taken["stepId"]}
    assert (await agent.refused("store_research", **NOTE, **where))["code"] == "NOT_FOUND"


async def test_storing_research_for_a_step_prevents_a_stall(world: OrgEnv) -> None:
    agent = world.agent
    taken = await agent.take(await agent.plan())
    for _ in range(3):
        world.clock.advance(minutes=20)
        await agent.call("store_research", **NOTE, stepId=taken["stepId"])
    assert not (await agent.status(taken))["stalled"]
    world.clock.advance(minutes=31)
    assert (await agent.status(taken))["stalled"]


@pytest.mark.parametrize("with_plan", [True, False])
async def test_store_research_adds_version_only_if_content_differs(
    world: OrgEnv, *, with_plan: bool
) -> None:
    agent = world.agent
    where = {"planId": (await agent.plan())["planId"]} if with_plan else {}
    first, again, second = [
        await agent.call("store_research", **{**NOTE, "content": content}, **where)
        for content in (FLOOD, FLOOD, "The lake drained overnight.")
    ]
    assert [artifact["version"] for artifact in (first, again, second)] == [1, 1, 2]
    assert (again["artifactId"], again["unchanged"]) == (first["artifactId"], True)
    assert [hit["id"] for hit in await search_hits(agent, "Floods")] == [second["artifactId"]]
    old = await agent.call("get_artifact", artifactId=first["artifactId"])
    assert (old["content"], old["laterVersion"]) == (FLOOD, second["artifactId"])
    new = await agent.call("get_artifact", artifactId=second["artifactId"])
    assert new["earlierVersion"] == first["artifactId"]
    while await index_all_orgs(world.dispatcher.services):
        pass
    assert [hit["id"] for hit in await search_hits(agent, "Floods")] == [second["artifactId"]]


async def test_concurrent_research_with_same_title_gets_distinct_versions(world: OrgEnv) -> None:
    agent, plan = world.agent, await world.agent.plan()
    for where in ({"planId": plan["planId"]}, {}):
        stored = await asyncio.gather(
            *[
                agent.call("store_research", **{**NOTE, "content": f"{n}"}, sources=[PAGE], **where)
                for n in range(8)
            ]
        )
        assert sorted(artifact["version"] for artifact in stored) == [*range(1, 9)]
        assert len({artifact["sourceIds"][0] for artifact in stored}) == 1


async def test_store_research_stores_repeated_source_once(world: OrgEnv) -> None:
    agent, plans = world.agent, [await world.agent.plan() for _ in range(2)]
    stored: Body = {}
    for plan in (*plans, plans[0], {}):
        where = {"planId": plan["planId"]} if plan else {}
        title = f"Floods {await rows(world, 'artifact')}"
        args = {**NOTE, "title": title, "sources": [PAGE, PAGE]}
        stored = await agent.call("store_research", **args, **where)
        assert len(stored["sourceIds"]) == 1
    assert (await rows(world, "source"), await rows(world, "artifact_source")) == (1, 4)
    source = await agent.call("get_artifact", artifactId=stored["sourceIds"][0])
    assert (source["quote"], len(source["artifacts"])) == (PAGE["quote"], 4)


async def test_store_research_on_closed_plan_suggests_storing_without_plan(
    agent: AgentClient,
) -> None:
    plan = await agent.plan(1)
    await agent.work_through(plan)
    error = await agent.refused("store_research", **NOTE, planId=plan["planId"])
    assert error["code"] == "PLAN_TERMINAL"
    assert error["next"]["tool"] == "store_research"
    assert "planId" not in error["next"]["args"]
    await agent.call("store_research", **{**NOTE, **error["next"]["args"]})


@pytest.mark.parametrize("content", [{"a": [1, 2.5, None]}, [1], 7, 0, False, "text", "☃" * 9])
async def test_get_artifact_returns_json_content_exactly_as_stored(
    agent: AgentClient, content: object
) -> None:
    stored = await agent.call("store_research", **{**NOTE, "content": content})
    read = await agent.call("get_artifact", artifactId=stored["artifactId"])
    assert read["content"] == content


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"content": None}, "INVALID_INPUT"),
        ({"content": ""}, "INVALID_INPUT"),
        ({"content": "x" * 263_000}, "TOO_LARGE"),
        ({"metadata": {"a": "x" * 263_000}}, "TOO_LARGE"),
        ({"sources": [{"title": "x"}] * 51}, "TOO_LARGE"),
        ({"sources": [{"title": "x", "quote": "x" * 20_001}]}, "TOO_LARGE"),
        ({"sources": [{"url": "https://example.org"}]}, "INVALID_INPUT"),
        ({"sources": [{"title": "x", "retrievedAt": [2030]}]}, "INVALID_INPUT"),
        ({"tags": ["x"] * 21}, "TOO_LARGE"),
        ({"kind": "output"}, "INVALID_INPUT"),
        ({"kind": ""}, "INVALID_INPUT"),
        ({"title": "x" * 201}, "TOO_LARGE"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_store_research_with_invalid_arguments_stores_nothing(
    world: OrgEnv, wrong: Body, code: str
) -> None:
    assert (await world.agent.refused("store_research", **{**NOTE, **wrong}))["code"] == code
    assert await rows(world, "artifact") == await rows(world, "passage") == 0


async def test_research_stored_without_plan_has_an_audit_entry(world: OrgEnv) -> None:
    stored = await world.agent.call("store_research", **NOTE, sources=[PAGE], metadata={"a": 1})
    (entry,) = await world.entries(world.agent.org_id, stored["artifactId"])
    details = json.loads(entry.details)
    assert (entry.subject, entry.event) == ("artifact", "plan_modified")
    assert [change.entity for change in changes_of(details)] == [
        "artifact",
        "source",
        "artifact_source",
    ]


async def test_get_artifact_returns_long_text_in_pages_or_whole(agent: AgentClient) -> None:
    long = "".join(f"{n} ☃\n" for n in range(10_000))
    stored = await agent.call("store_research", **{**NOTE, "content": long})
    call: Body = {"artifactId": stored["artifactId"]}
    pieces, left = "", 1
    while left:
        read = await agent.call("get_artifact", **call)
        assert len(json.dumps(read, ensure_ascii=False).encode()) < 48_000
        pieces, left, call = pieces + read["content"], read["left"], read["next"]["args"]
    assert pieces == long
    artifact = await agent.call("get_artifact", artifactId=stored["artifactId"], detail=True)
    assert artifact["content"] == long


async def test_search_returns_artifact_and_cited_source_as_a_single_hit(
    agent: AgentClient,
) -> None:
    cited = {"title": "Moraine dam of a glacial lake", "quote": "A moraine dam broke."}
    other = {"title": "Weather", "quote": "It rained."}
    args = {**NOTE, "title": "Visit", "content": "We saw a glacial lake and took photographs."}
    stored = await agent.call("store_research", **args, sources=[other, cited])
    await agent.call("store_research", **NOTE)
    query = "moraine dam of a glacial lake"
    first, second = await search_hits(agent, query)
    assert (first["id"], second["title"]) == (stored["artifactId"], "Floods")
    assert first["why"][0]["rank"] == 1
    assert [source["sourceId"] for source in first["sources"]] == [*reversed(stored["sourceIds"])]
    (page, rest) = [
        await agent.call("search_sources", query=query, limit=1, **more)
        for more in ({}, {"cursor": 1})
    ]
    assert [page["hits"][0]["title"], rest["hits"][0]["title"]] == ["Visit", "Floods"]
    assert (page["nextCursor"], "nextCursor" in rest) == (1, False)


async def test_source_cited_by_two_artifacts_is_no_separate_hit(agent: AgentClient) -> None:
    for title in ("Floods", "Diary"):
        content = FLOOD if title == "Floods" else "A moraine is mentioned."
        await agent.call(
            "store_research", **{**NOTE, "title": title, "content": content}, sources=[PAGE]
        )
    hits = await search_hits(agent, "moraine dam")
    assert [(hit["subject"], hit["title"]) for hit in hits] == [
        ("artifact", "Floods"),
        ("artifact", "Diary"),
    ]


async def test_source_without_matching_artifact_is_a_separate_hit(agent: AgentClient) -> None:
    await agent.call("store_research", **{**NOTE, "content": "Tax law."}, sources=[PAGE])
    hits = await search_hits(agent, "moraine dams", kinds=["source"])
    assert [(hit["subject"], hit["title"]) for hit in hits] == [("source", "Glacial lakes")]


@pytest.mark.parametrize(
    "query",
    [
        "xqzvkw blorfing zzyzx",
        "best recipe for a chocolate birthday cake",
        "quarterly revenue of the car maker",
        "who won the football match yesterday",
        "\u041f\u0440\u0438\u0432\u0435\u0442",
    ],
)
async def test_search_without_matches_returns_only_a_message(
    agent: AgentClient, query: str
) -> None:
    await agent.call("store_research", **NOTE, sources=[PAGE])
    reply = await agent.call("search_sources", query=query)
    assert (reply["hits"], reply["message"]) == ([], "No stored research fits this query.")
    assert reply["next"]["tool"] == "store_research"
    narrowed = await agent.call("search_sources", query=query, kinds=["note"])
    assert narrowed["next"]["tool"] == "search_sources"
    assert "message" not in await agent.call("search_sources", query="collapse of an ice lake")


async def test_search_sources_applies_every_filter(world: OrgEnv) -> None:
    agent, plan = world.agent, await world.agent.plan()
    await agent.call("store_research", **{**NOTE, "title": "Old"}, tags=["a", "b"])
    world.clock.advance(days=1)
    await agent.call("store_research", **{**NOTE, "title": "Ours"}, planId=plan["planId"])
    await agent.call("store_research", **{**NOTE, "title": "Fact", "kind": "fact"}, tags=["b"])

    async def titles(**filters: object) -> set[str]:
        return {hit["title"] for hit in await search_hits(agent, "moraine dam", **filters)}

    assert await titles() == {"Old", "Ours", "Fact"}
    assert await titles(planId=plan["planId"]) == {"Ours"}
    assert await titles(kinds=["fact"]) == {"Fact"}
    assert await titles(tags=["b"]) == {"Old", "Fact"}
    assert await titles(tags=["b", "a"]) == {"Old"}
    assert await titles(withinDays=0.5) == {"Ours", "Fact"}
    assert await titles(withinDays=2) == {"Old", "Ours", "Fact"}


async def test_pages_of_search_results_contain_every_hit_exactly_once(agent: AgentClient) -> None:
    sources = [
        {"title": f"{n}" * 150, "url": "https://example.org/" + "x" * 1_900} for n in range(5)
    ]
    for n in range(25):
        args = {**NOTE, "title": f"Flood {n}", "content": FLOOD + "☃" * 900}
        await agent.call("store_research", **args, sources=sources, tags=["ice"])
    seen: list[str] = []
    args = {"query": "moraine dam", "limit": 50, "tags": ["ice"]}
    while True:
        page = await agent.call("search_sources", **args)
        assert len(json.dumps(page, ensure_ascii=False).encode()) < 48_000
        assert all(hit["moreSources"] == 2 for hit in page["hits"])
        seen += [hit["title"] for hit in page["hits"]]
        if "nextCursor" not in page:
            break
        args = {**args, "cursor": page["nextCursor"]}
    assert sorted(seen) == sorted(f"Flood {n}" for n in range(25))


@pytest.mark.parametrize("cursor", ["x", 1.5])
async def test_search_sources_refuses_invalid_cursor(agent: AgentClient, cursor: object) -> None:
    error = await agent.refused("search_sources", query="x", cursor=cursor)
    assert error["code"] == "INVALID_INPUT"


async def test_search_with_extreme_query_and_filters_finds_research(
    agent: AgentClient,
) -> None:
    await agent.call("store_research", **NOTE, tags=[" a tag ", "\x07"])
    beyond: Body = {"withinDays": 10**9, "kinds": [f" {NOTE['kind']}"], "tags": ["a tag", " "]}
    assert len((await agent.call("search_sources", query="flood " * 1_000, **beyond))["hits"]) == 1
    reply = await agent.call("search_sources", query="flood", cursor=2**62, kinds=["x" * 300])
    assert reply["hits"] == []
    assert len((await agent.call("search_sources", query="flood", cursor=-1))["hits"]) == 1


@pytest.mark.parametrize(
    ("time", "stored"),
    [
        ("2029-12-31", "2029-12-31T00:00:00+00:00"),
        ("2030-01-01T01:00:00+02:00", "2029-12-31T23:00:00+00:00"),
        ("yesterday", None),
        ("2030-02-30", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
async def test_time_of_a_source_is_stored_in_utc_or_omitted_if_invalid(
    agent: AgentClient, time: str, stored: str | None
) -> None:
    source = {"title": "x", "url": "https://example.org/" + "a" * 3_000, "retrievedAt": time}
    made = await agent.call("store_research", **NOTE, sources=[source])
    (read,) = (await agent.call("get_artifact", artifactId=made["artifactId"]))["sources"]
    assert read["url"] == source["url"]
    assert read.get("retrievedAt") == stored


async def test_late_result_can_be_found_after_background_indexing(world: OrgEnv) -> None:
    agent = world.agent
    taken = await agent.take(await agent.plan())
    late = {"stepId": taken["stepId"], "attempt": 9, "resultSummary": {"finding": FLOOD}}
    error = await agent.refused("submit_step_result", **late)
    assert await search_hits(agent, "moraine dam") == []
    services = world.dispatcher.services
    await asyncio.gather(*[index_all_orgs(services) for _ in range(3)])
    while await index_all_orgs(services):
        pass
    (hit,) = await search_hits(agent, "moraine dam", kinds=["late_result"])
    assert (hit["id"], hit["superseded"]) == (error["details"]["artifactId"], True)
    assert await index_all_orgs(services) == 0


async def test_background_indexing_includes_late_results_stored_after_a_round(
    world: OrgEnv,
) -> None:
    services, agent = world.dispatcher.services, world.agent
    while await index_all_orgs(services):
        pass
    world.clock.advance(days=1)
    taken = await agent.take(await agent.plan())
    late = {"stepId": taken["stepId"], "attempt": 9, "resultSummary": FLOOD}
    await agent.refused("submit_step_result", **late)
    while await index_all_orgs(services):
        pass
    assert len(await search_hits(agent, "moraine dam")) == 1


def embeddings(texts: Sequence[str], width: int) -> Body:
    """Return the answer of an embeddings endpoint, with vectors of this width."""
    made = [(*builtin_embedder().embed(text), *[0.0] * (width - 256)) for text in texts]
    return {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(made)]}


async def test_search_falls_back_to_full_text_while_embeddings_endpoint_fails(
    world: OrgEnv,
) -> None:
    agent, services = world.agent, world.dispatcher.services

    async def play(writer: Writer) -> None:
        texts = other.requests[-1].body["input"]
        await answer(embeddings(texts, 1024))(writer)

    async with fake_endpoint(answer({}, 500)) as other:
        model = EmbeddingsClient(other.url, "m", "sk-1")
        model.pause = model.rest = 0
        services.parts[SearchBackend] = SearchBackend(model)
        stored = await agent.call("store_research", **NOTE, sources=[PAGE])
        assert stored["indexed"].startswith("full text; vectors follow")
        reply = await agent.call("search_sources", query="moraine dam")
        assert reply["searched"] == "full text alone (the embeddings endpoint does not answer)"
        assert reply["hits"][0]["id"] == stored["artifactId"]
        assert await index_all_orgs(services) == 0
        other.will(play)
        while await index_all_orgs(services):
            pass
        reply = await agent.call("search_sources", query="icy reservoir collapse")
        assert reply["searched"].startswith("full text and vectors")
        assert [why["by"] for why in reply["hits"][0]["why"]] == ["meaning"]
        await model.close()
    assert "sk-1" not in json.dumps([stored, reply])
