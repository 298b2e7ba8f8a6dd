"""Endpoints exist where they are configured, and cost nothing where they are not."""

import subprocess
import sys

from endpoint_server import an_endpoint, answer
from waybook.integrations.factory import open_model
from waybook.integrations.llm_messages import ModelRequest
from waybook.settings import Settings

QUESTION = ModelRequest(instructions="Do it.", text="Words.", schema={})


async def test_without_an_address_there_is_no_model() -> None:
    async with open_model(Settings()) as model:
        assert model is None


async def test_with_one_it_can_be_asked() -> None:
    said = {"choices": [{"message": {"content": "[1]"}}]}
    async with an_endpoint(answer(said)) as other:
        settings = Settings(model_url=other.url, model="m", model_key="k")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (asked,) = other.asked
    assert (asked.body["model"], asked.headers["authorization"]) == ("m", "Bearer k")


async def test_the_other_format_is_spoken_where_it_is_asked_for() -> None:
    said = {"content": [{"type": "text", "text": "[1]"}]}
    async with an_endpoint(answer(said)) as other:
        settings = Settings(model_url=other.url, model_api="anthropic", model="m")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (asked,) = other.asked
    assert asked.path == "/v1/messages"
    assert "x-api-key" not in asked.headers


def test_what_speaks_http_is_imported_only_then() -> None:
    asked = "import sys, waybook.bootstrap; sys.exit('httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
