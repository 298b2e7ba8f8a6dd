"""Clients for external endpoints are created only if the endpoint is configured."""

from fake_endpoint import answer, fake_endpoint
from waybook.integrations.factory import open_model
from waybook.integrations.llm_messages import ModelRequest
from waybook.settings import Settings

QUESTION = ModelRequest(instructions="Do it.", text="Words.", schema={})


async def test_no_model_client_is_opened_without_a_model_url() -> None:
    async with open_model(Settings()) as model:
        assert model is None


async def test_model_client_opened_with_a_url_completes_a_prompt() -> None:
    reply = {"choices": [{"message": {"content": "[1]"}}]}
    async with fake_endpoint(answer(reply)) as other:
        settings = Settings(model_url=other.url, model="m", model_key="k")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (request,) = other.requests
    assert (request.body["model"], request.headers["authorization"]) == ("m", "Bearer k")


async def test_model_with_anthropic_api_sends_requests_in_messages_format() -> None:
    reply = {"content": [{"type": "text", "text": "[1]"}]}
    async with fake_endpoint(answer(reply)) as other:
        settings = Settings(model_url=other.url, model_api="anthropic", model="m")
        async with open_model(settings) as model:
            assert model is not None
            assert (await model.complete(QUESTION, seconds=20)).text == "[1]"
    (request,) = other.requests
    assert request.path == "/v1/messages"
    assert "x-api-key" not in request.headers
