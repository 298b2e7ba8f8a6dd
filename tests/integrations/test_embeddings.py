"""Client for embedding services with OpenAI's API, tested over real sockets."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fake_endpoint import (
    EndpointServer,
    Play,
    Writer,
    answer,
    close_early,
    fake_endpoint,
    unused_url,
)
from waybook.errors import EndpointFailed
from waybook.integrations.embeddings import ATTEMPTS, MAX_CHARACTERS, MAX_TEXTS, EmbeddingsClient
from waybook.research.embedding import DIMENSIONS

KEY = "sk-of-the-operator"


def embeddings_reply(*vectors: list[Any]) -> dict[str, Any]:
    """Return an answer with these embeddings, in reverse order as the API allows."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    return {"object": "list", "model": "m", "data": data[::-1]}


@asynccontextmanager
async def open_model(
    *plays: Play, rest: float = 0, path: str = "/v1"
) -> AsyncIterator[tuple[EndpointServer, EmbeddingsClient]]:
    async with fake_endpoint(*plays) as other:
        model = EmbeddingsClient(f"{other.url}{path}", "m", KEY)
        model.pause, model.rest = 0, rest
        try:
            yield other, model
        finally:
            await model.close()


async def failure(*plays: Play) -> tuple[EndpointFailed, EndpointServer]:
    async with open_model(*plays) as (other, model):
        with pytest.raises(EndpointFailed) as failed:
            await model.vectors(["a"])
        return failed.value, other


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/embeddings"])
async def test_embedding_request_contains_dimensions_and_api_key(path: str) -> None:
    async with open_model(answer(embeddings_reply([3.0, 4.0], [1.0])), path=path) as (other, model):
        first, second = await model.vectors(["a", "☃"])
        (request,) = other.requests
    assert (first[:2], second[0], len(first)) == ((0.6, 0.8), 1.0, DIMENSIONS)
    assert request.path == "/v1/embeddings"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "m",
        "input": ["a", "☃"],
        "encoding_format": "float",
        "dimensions": DIMENSIONS,
    }


async def test_embedding_requests_omit_dimensions_after_a_rejection() -> None:
    wide = answer(embeddings_reply([1.0] * 1024))
    async with open_model(answer({"error": "no such parameter"}, 400), wide) as (other, model):
        for _ in range(2):
            ((*numbers,),) = await model.vectors(["a"])
            assert len(numbers) == DIMENSIONS
        assert ["dimensions" in request.body for request in other.requests] == [True, False, False]


async def test_embedding_client_sends_many_texts_in_batches() -> None:
    async def play(writer: Writer) -> None:
        await answer(embeddings_reply(*([1.0] for _ in other.requests[-1].body["input"])))(writer)

    async with open_model(play) as (other, model):
        texts = ["x"] * (2 * MAX_TEXTS + 1) + ["y" * MAX_CHARACTERS] * 2
        assert len(await model.vectors(texts)) == len(texts)
        assert [len(request.body["input"]) for request in other.requests] == [
            MAX_TEXTS,
            MAX_TEXTS,
            1,
            1,
            1,
        ]
        assert await model.vectors([]) == []


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_embedding_client_retries_after_a_transient_error_status(status: int) -> None:
    async with open_model(answer({}, status), answer(embeddings_reply([1.0]))) as (other, model):
        assert len(await model.vectors(["a"])) == 1
        assert len(other.requests) == 2


async def test_embedding_client_gives_up_after_maximum_number_of_requests() -> None:
    failed, other = await failure(answer({}, 500))
    assert failed.details["status"] == 500
    assert len(other.requests) == ATTEMPTS


@pytest.mark.parametrize("status", [401, 403, 301])
async def test_embedding_client_does_not_retry_after_a_permanent_error_status(status: int) -> None:
    _, other = await failure(answer({}, status))
    assert len(other.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], "no JSON", 1, {"data": 1}, {"data": [{"index": 0}]}, embeddings_reply()),
        *(
            embeddings_reply([1.0], [2.0]),
            embeddings_reply([]),
            embeddings_reply([None]),
            embeddings_reply(["x"]),
            {"data": [{"embedding": [1.0]}]},
        ),
    ],
    ids=str,
)
async def test_embedding_client_raises_endpoint_failed_for_malformed_response(body: object) -> None:
    await failure(answer(body))


async def test_embedding_client_sends_no_request_during_pause_after_failure() -> None:
    async with open_model(close_early, rest=3600) as (other, model):
        for _ in range(3):
            with pytest.raises(EndpointFailed):
                await model.vectors(["a"])
        assert len(other.requests) == 1


async def test_embedding_client_raises_endpoint_failed_if_host_is_unreachable() -> None:
    model = EmbeddingsClient(await unused_url(), "m", None)
    model.pause = 0
    with pytest.raises(EndpointFailed):
        await model.vectors(["a"])
    await model.close()


async def test_embeddings_error_does_not_leak_api_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failed, _ = await failure(answer({"error": f"the key {KEY} is wrong"}, 400))
    assert KEY not in caplog.text + str(failed) + str(failed.as_json())
