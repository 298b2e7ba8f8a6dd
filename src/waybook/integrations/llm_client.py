"""HTTP client for a language model endpoint, in one of the supported wire formats."""

import asyncio
import logging
from dataclasses import replace

from waybook.errors import EndpointFailed
from waybook.integrations.http_client import BoundedHttpClient
from waybook.integrations.llm_anthropic import ANTHROPIC
from waybook.integrations.llm_messages import ModelReply, ModelRequest, WireFormat
from waybook.integrations.llm_openai import OPENAI
from waybook.json_values import Json

log = logging.getLogger(__name__)

FORMATS = {"openai": OPENAI, "anthropic": ANTHROPIC}
UNSUPPORTED_STATUS = frozenset({400, 404, 415, 422, 501})


class ModelClient:
    def __init__(self, *, url: str, api: str, model: str, key: str | None) -> None:
        self._format: WireFormat = FORMATS[api]
        self._model = model
        headers = self._format.headers(key)
        self._exchange = BoundedHttpClient(self._format.address(url), headers=headers, secret=key)

    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        try:
            return self._format.read(await self._ask(question, seconds), self._model)
        except EndpointFailed as failed:
            log.warning("the endpoint of %s: %s", self._model, failed.message)
            raise

    async def _ask(self, question: ModelRequest, seconds: float) -> Json:
        """Request structured output, or plain text if the endpoint supports only that."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        try:
            return await self._exchange.post(self._body(question), seconds=seconds)
        except EndpointFailed as failed:
            if failed.details.get("status") not in UNSUPPORTED_STATUS:
                raise
        plain = self._body(replace(question, structured=False))
        return await self._exchange.post(plain, seconds=deadline - clock())

    def _body(self, question: ModelRequest) -> Json:
        return self._format.request(question, self._model)

    async def close(self) -> None:
        await self._exchange.close()
