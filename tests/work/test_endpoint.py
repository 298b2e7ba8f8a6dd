"""Tasks that a model endpoint answers."""

from pathlib import Path

import pytest

from fake_endpoint import EndpointServer, Play, answer, close_early, fake_endpoint
from waybook.json_values import Json
from waybook.work.adapters import Adapter, Endpoint, load_adapters
from waybook.work.agent_process import run_agent
from waybook.work.endpoint import close_endpoints
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage

KEY = "sk-of-the-operator-1234567890"
SCHEMA: Json = {
    "type": "object",
    "properties": {"rivers": {"type": "integer"}},
    "required": ["rivers"],
}


def completion(text: str) -> Play:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return answer({"model": "m1", "choices": [choice], "usage": usage})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)


async def ask(server: EndpointServer, schema: Json = None) -> Outcome:
    endpoint = Endpoint(
        url=f"{server.url}/v1",
        model="m1",
        key_variable="MY_KEY",
        dollars_per_million_input=3,
        dollars_per_million_output=15,
    )
    task = Task("Count the rivers.", Path(), schema)
    agent = Adapter(name="local", endpoint=endpoint, errors=load_adapters().errors)
    try:
        return await run_agent(agent, task, Limits(seconds=20), lambda _: None)
    finally:
        await close_endpoints()


async def test_answer_text_usage_and_cost_are_returned() -> None:
    async with fake_endpoint(completion("Three.")) as server:
        outcome = await ask(server)
        (request,) = server.requests
    assert (outcome.kind, outcome.text, outcome.result) == (OutcomeKind.DONE, "Three.", None)
    assert outcome.usage == Usage(100, 10, 450, "m1")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"][-1]["content"] == "Count the rivers."


async def test_wrong_answer_is_repaired_and_both_rounds_are_counted() -> None:
    plays = completion('{"rivers": "three"}'), completion('{"rivers": 3}')
    async with fake_endpoint(*plays) as server:
        outcome = await ask(server, SCHEMA)
        again = server.requests[1].body["messages"][-1]["content"]
    assert (outcome.kind, outcome.result) == (OutcomeKind.DONE, {"rivers": 3})
    assert outcome.usage == Usage(200, 20, 900, "m1")
    assert "'three' is not of type 'integer'" in again


async def test_short_retry_after_is_waited_for() -> None:
    busy = answer({}, 429, retry_after="0.01")
    async with fake_endpoint(busy, completion("Three.")) as server:
        assert (await ask(server)).kind is OutcomeKind.DONE


async def test_long_retry_after_is_a_quota_with_a_reset_time() -> None:
    async with fake_endpoint(answer({}, 429, retry_after="3600")) as server:
        outcome = await ask(server)
        assert len(server.requests) == 1
    assert (outcome.kind, outcome.result) == (OutcomeKind.QUOTA, None)
    assert outcome.resumes_at is not None


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (answer({"error": {"message": f"wrong key {KEY}"}}, 401), OutcomeKind.SIGN_IN),
        (answer({"error": {"message": "no such model"}}, 404), OutcomeKind.NO_MODEL),
        (answer("", 503), OutcomeKind.NO_NETWORK),
        (close_early, OutcomeKind.NO_NETWORK),
        (answer({"error": {"message": f"bad {KEY}"}}, 400), OutcomeKind.FAILED),
        (answer("no JSON"), OutcomeKind.FAILED),
    ],
)
async def test_error_of_the_endpoint_gives_the_kind_of_the_outcome(
    play: Play, kind: OutcomeKind
) -> None:
    async with fake_endpoint(play) as server:
        outcome = await ask(server)
    assert outcome.kind is kind
    assert outcome.message.startswith("the endpoint: ")
    assert KEY not in outcome.message + outcome.transcript
