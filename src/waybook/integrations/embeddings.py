"""HTTP client for embedding endpoints that use the OpenAI embeddings format."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, cast

from waybook.errors import EndpointFailed
from waybook.integrations.http_client import BoundedHttpClient
from waybook.json_values import Json
from waybook.research.embedding import DIMENSIONS, Vector, resize_vector

MAX_TEXTS: Final = 32
MAX_CHARACTERS: Final = 60_000
MAX_BYTES: Final = 16 * 1024 * 1024
ATTEMPTS: Final = 3

#: Statuses with which an endpoint may reject the parameter `dimensions`. The client then repeats
#: the request without this parameter.
UNSUPPORTED_STATUS: Final = frozenset({400, 404, 422})
TOO_MANY_REQUESTS: Final = 429
_SERVER_ERRORS: Final = 500


class EmbeddingsClient:
    #: Seconds: limit of a request, first pause before a retry, and time without calls after a
    #: failure.
    seconds, pause, rest = 10.0, 0.3, 20.0

    def __init__(self, url: str, model: str, key: str | None) -> None:
        """Create the client. `url` may end in `/embeddings`, but need not."""
        self.name = f"endpoint {model}"
        bare = url.rstrip("/")
        self._exchange = BoundedHttpClient(
            bare if bare.endswith("/embeddings") else f"{bare}/embeddings",
            headers={"authorization": f"Bearer {key}"} if key else {},
            secret=key,
            most_bytes=MAX_BYTES,
        )
        self._model = model
        self._resting_until = 0.0
        #: Whether to send the parameter `dimensions`. False after the endpoint has rejected it.
        self._narrow = True

    async def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """Return one embedding vector for each text."""
        now = asyncio.get_running_loop().time
        if now() < self._resting_until:
            raise EndpointFailed("it failed a moment ago and is not asked again yet")
        try:
            return [vector for batch in _batch_texts(texts) for vector in await self._batch(batch)]
        except EndpointFailed:
            self._resting_until = now() + self.rest
            raise

    async def warm(self) -> None:
        """Do nothing, because the model runs at the endpoint and need not be loaded here."""

    async def close(self) -> None:
        await self._exchange.close()

    async def _batch(self, texts: list[str]) -> list[Vector]:
        try:
            answer = await self._request_embeddings(texts)
        except EndpointFailed as error:
            if not (self._narrow and error.details.get("status") in UNSUPPORTED_STATUS):
                raise
            self._narrow = False
            answer = await self._request_embeddings(texts)
        vectors = await asyncio.to_thread(_read_vectors, answer)
        if len(vectors) != len(texts):
            raise EndpointFailed("its answer does not have a vector for each text")
        return vectors

    async def _request_embeddings(self, texts: list[str]) -> Json:
        """Request embeddings. Rate limits and server errors are retried."""
        body: dict[str, Json] = {"model": self._model, "input": cast("Json", texts)}
        body["encoding_format"] = "float"
        if self._narrow:
            body["dimensions"] = DIMENSIONS
        for attempt in range(1, ATTEMPTS):
            try:
                return await self._exchange.post(body, seconds=self.seconds)
            except EndpointFailed as error:
                status = error.details.get("status", 0)
                if status != TOO_MANY_REQUESTS and cast("int", status) < _SERVER_ERRORS:
                    raise
                await asyncio.sleep(self.pause * 2 ** (attempt - 1))
        return await self._exchange.post(body, seconds=self.seconds)


def _read_vectors(answer: Json) -> list[Vector]:
    try:
        data = sorted(answer["data"], key=lambda item: item["index"])  # type: ignore[index,call-overload,arg-type]  # a malformed answer raises one of the errors below
        return [resize_vector(item["embedding"]) for item in data]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise EndpointFailed("its answer is not in the format of OpenAI's embeddings") from None


def _batch_texts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in order, in batches that fit one embedding request.

    >>> [len(batch) for batch in _batch_texts(["x"] * 70)]
    [32, 32, 6]
    """
    batch: list[str] = []
    left = MAX_CHARACTERS
    for text in texts:
        if batch and (len(text) > left or len(batch) == MAX_TEXTS):
            yield batch
            batch, left = [], MAX_CHARACTERS
        batch.append(text)
        left -= len(text)
    if batch:
        yield batch
