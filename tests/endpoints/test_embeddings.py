"""Vectors from an external service, in OpenAI's embeddings format, over real sockets."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from endpoint_server import EndpointServer, Play, Writer, an_endpoint, answer, hang_up, nobodys_url
from waybook.errors import EndpointFailed
from waybook.integrations.embeddings import ATTEMPTS, MAX_CHARACTERS, MAX_TEXTS, EmbeddingsClient
from waybook.research.embedding import DIMENSIONS

KEY = "sk-of-the-operator"


def told(*vectors: list[Any]) -> dict[str, Any]:
    """Return an answer with these, the last first: an answer need not keep the order."""
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    return {"object": "list", "model": "m", "data": data[::-1]}


@asynccontextmanager
async def a_model(
    *plays: Play, rest: float = 0, path: str = "/v1"
) -> AsyncIterator[tuple[EndpointServer, EmbeddingsClient]]:
    async with an_endpoint(*plays) as other:
        model = EmbeddingsClient(f"{other.url}{path}", "m", KEY, pause=0, rest=rest)
        try:
            yield other, model
        finally:
            await model.close()


async def failure(*plays: Play) -> tuple[EndpointFailed, EndpointServer]:
    async with a_model(*plays) as (other, model):
        with pytest.raises(EndpointFailed) as failed:
            await model.vectors(["a"])
        return failed.value, other


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/embeddings"])
async def test_it_is_asked_for_our_width_with_the_key(path: str) -> None:
    async with a_model(answer(told([3.0, 4.0], [1.0])), path=path) as (other, model):
        first, second = await model.vectors(["a", "☃"])
        (asked,) = other.asked
    assert (first[:2], second[0], len(first)) == ((0.6, 0.8), 1.0, DIMENSIONS)
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "m",
        "input": ["a", "☃"],
        "encoding_format": "float",
        "dimensions": DIMENSIONS,
    }


async def test_a_model_of_one_width_is_asked_without_ours_from_then_on() -> None:
    wide = answer(told([1.0] * 1024))
    async with a_model(answer({"error": "no such parameter"}, 400), wide) as (other, model):
        for _ in range(2):
            ((*numbers,),) = await model.vectors(["a"])
            assert len(numbers) == DIMENSIONS
        assert ["dimensions" in asked.body for asked in other.asked] == [True, False, False]


async def test_many_texts_go_in_batches() -> None:
    async def play(writer: Writer) -> None:
        await answer(told(*([1.0] for _ in other.asked[-1].body["input"])))(writer)

    async with a_model(play) as (other, model):
        texts = ["x"] * (2 * MAX_TEXTS + 1) + ["y" * MAX_CHARACTERS] * 2
        assert len(await model.vectors(texts)) == len(texts)
        assert [len(asked.body["input"]) for asked in other.asked] == [
            MAX_TEXTS,
            MAX_TEXTS,
            1,
            1,
            1,
        ]
        assert await model.vectors([]) == []


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    async with a_model(answer({}, status), answer(told([1.0]))) as (other, model):
        assert len(await model.vectors(["a"])) == 1
        assert len(other.asked) == 2


async def test_it_is_not_tried_for_ever() -> None:
    failed, other = await failure(answer({}, 500))
    assert failed.details["status"] == 500
    assert len(other.asked) == ATTEMPTS


@pytest.mark.parametrize("status", [401, 403, 301])
async def test_what_will_not_pass_is_not_tried_again(status: int) -> None:
    _, other = await failure(answer({}, status))
    assert len(other.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        *({}, [], "no JSON", 1, {"data": 1}, {"data": [{"index": 0}]}, told()),
        *(
            told([1.0], [2.0]),
            told([]),
            told([None]),
            told(["x"]),
            {"data": [{"embedding": [1.0]}]},
        ),
    ],
    ids=str,
)
async def test_an_answer_of_another_form_is_none(body: object) -> None:
    await failure(answer(body))


async def test_whoever_failed_is_left_alone_for_a_while() -> None:
    async with a_model(hang_up, rest=3600) as (other, model):
        for _ in range(3):
            with pytest.raises(EndpointFailed):
                await model.vectors(["a"])
        assert len(other.asked) == 1


async def test_nobody_there_is_no_answer() -> None:
    model = EmbeddingsClient(await nobodys_url(), "m", None, pause=0)
    with pytest.raises(EndpointFailed):
        await model.vectors(["a"])
    await model.close()


async def test_the_key_is_told_to_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    failed, _ = await failure(answer({"error": f"the key {KEY} is wrong"}, 400))
    assert KEY not in caplog.text + str(failed) + str(failed.as_json())


async def test_others_go_on_while_it_is_waited_for() -> None:
    async with a_model(answer(told([1.0]))) as (_, model):
        asked = asyncio.create_task(model.vectors(["a"]))
        await asyncio.sleep(0)
        assert not asked.done()
        await asked
