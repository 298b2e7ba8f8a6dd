"""Results in replies of `get_plan_status` are cut if the reply would be too large."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from org_env import AgentClient, Body
from waybook.app.request.caller import MAX_REPLY_BYTES
from waybook.app.request.request_context import RequestContext
from waybook.app.tools.plans.status import decode_beginning
from waybook.store.plans import load

RESULT = "All of it is x. " * 15_000
TEXTS = st.lists(st.sampled_from(["a", "\\", '"', "u", "d83d", "\n", "\x01", "é", "☃", "😀"])).map(
    "".join
)


@given(text=TEXTS, cut=st.integers(1, 60), ascii_only=st.booleans())
def test_truncated_json_string_decodes_to_a_prefix_of_the_text(
    text: str, cut: int, *, ascii_only: bool
) -> None:
    written = json.dumps(text, ensure_ascii=ascii_only)
    piece = decode_beginning(written[: cut + 1])
    assert text.startswith(piece)
    assert len(piece) >= min(len(text), cut // 6 - 2)


async def make_plan_of(agent: AgentClient, *results: object) -> Body:
    plan = await agent.plan([{"stepType": "search", "instructions": "Look."}] * len(results))
    for result in results:
        await agent.submit(await agent.take(plan), result)
    return plan


async def test_get_plan_status_returns_only_the_start_of_large_results(agent: AgentClient) -> None:
    structured = {"rows": ["é" * 1_000] * 100}
    plan = await make_plan_of(agent, *[RESULT] * 12, structured, "short")
    statement = load.SQL["results_within"](plan_id=plan["planId"], most=MAX_REPLY_BYTES)
    (rows,) = await RequestContext(services=agent.dispatcher.services, caller=agent.caller).read(
        statement
    )
    assert {row[1] for row in rows} == {None}, "results that are too large are not read"
    for detail, most in ((False, 48_000), (True, MAX_REPLY_BYTES)):
        status = await agent.call("get_plan_status", planId=plan["planId"], detail=detail)
        assert len(orjson.dumps(status)) <= most
        *long, rows_, last = status["completedSteps"]
        assert last["resultSummary"] == "short"
        assert "cut" not in last
        for step in long:
            piece, cut = step["resultSummary"], step["cut"]
            assert RESULT.startswith(piece)
            assert len(piece) + cut["left"] == len(RESULT)
            rest = await agent.call(cut["get"]["tool"], **cut["get"]["args"])
            assert RESULT[len(piece) :].startswith(rest["content"])
        assert orjson.dumps(structured).decode().startswith(rows_["resultSummary"])


@pytest.mark.parametrize("detail", [False, True])
async def test_get_plan_status_returns_small_results_in_full(
    agent: AgentClient, *, detail: bool
) -> None:
    results = ["é" * 2_000, {"n": [1.5, None, True]}, None, ""]
    plan = await make_plan_of(agent, *results)
    status = await agent.call("get_plan_status", planId=plan["planId"], detail=detail)
    assert [step["resultSummary"] for step in status["completedSteps"]] == results
    assert "cut" not in status
