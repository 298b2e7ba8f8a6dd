"""HTTP client for a language model endpoint, in one of the supported wire formats.

These are OpenAI's Chat Completions API, which many other servers implement too, and Anthropic's
Messages API.
"""

import asyncio
import json
import logging
import math
from urllib.parse import urlsplit

from waybook.core.usage import Usage
from waybook.errors import EndpointFailed
from waybook.integrations.http_client import MAX_CONNECTIONS, BoundedHttpClient
from waybook.integrations.llm_messages import (
    ModelReply,
    ModelRequest,
    WireFormat,
    get_path,
    parse_token_count,
)
from waybook.json_values import Json

log = logging.getLogger(__name__)

_OPENAI_PATH = "/chat/completions"


def _openai_request(question: ModelRequest, model: str) -> dict[str, Json]:
    """Return the JSON body of a request to the Chat Completions API.

    No length limit is sent, because servers disagree on the name of that field.
    """
    body: dict[str, Json] = {
        "model": model,
        "messages": [
            {"role": "system", "content": question.instructions},
            {"role": "user", "content": question.text},
        ],
    }
    if question.structured:
        named: dict[str, Json] = {"name": "data", "schema": question.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    return body


def _openai_reply(answer: Json, model: str) -> ModelReply:
    message = get_path(answer, "choices", 0, "message")
    if not isinstance(message, dict):
        raise EndpointFailed("its answer is not a chat completion of the OpenAI API")
    if isinstance(message.get("refusal"), str):
        raise EndpointFailed("the model refused to answer")
    named = get_path(answer, "model")
    return ModelReply(
        text=_text(message.get("content")),
        usage=Usage(
            input_tokens=parse_token_count(get_path(answer, "usage", "prompt_tokens")),
            output_tokens=parse_token_count(get_path(answer, "usage", "completion_tokens")),
            model=named[:200] if isinstance(named, str) and named else model,
        ),
        truncated=get_path(answer, "choices", 0, "finish_reason") == "length",
    )


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(_text(get_path(part, "text")) for part in content)
    return content if isinstance(content, str) else ""


OPENAI = WireFormat(
    address=lambda url: url.rstrip("/").removesuffix(_OPENAI_PATH) + _OPENAI_PATH,
    headers=lambda key: {"authorization": f"Bearer {key}"} if key else {},
    request=_openai_request,
    read=_openai_reply,
)


_ANTHROPIC_VERSION = "2023-06-01"
#: The API requires a maximum number of answer tokens in every request.
MAX_TOKENS = 8_192
_ANTHROPIC_TOOL = "hand_in"


def _anthropic_url(url: str) -> str:
    url = url.rstrip("/")
    if url.endswith("/messages"):
        return url
    return f"{url}/messages" if url.endswith("/v1") else f"{url}/v1/messages"


def _anthropic_request(question: ModelRequest, model: str) -> dict[str, Json]:
    body: dict[str, Json] = {
        "model": model,
        "max_tokens": MAX_TOKENS,
        "system": question.instructions,
        "messages": [{"role": "user", "content": question.text}],
    }
    if question.structured:
        # The input of the tool is an object whose field `data` is the extracted data.
        shape: Json = {k: v for k, v in question.schema.items() if k != "$schema"}
        taken: Json = {"type": "object", "properties": {"data": shape}, "required": ["data"]}
        description = "Hand in the data that were extracted."
        body["tools"] = [
            {"name": _ANTHROPIC_TOOL, "description": description, "input_schema": taken}
        ]
        body["tool_choice"] = {"type": "tool", "name": _ANTHROPIC_TOOL}
    return body


def _anthropic_reply(answer: Json, model: str) -> ModelReply:
    """Return the model's reply: its tool input, or its text if it called no tool."""
    blocks = get_path(answer, "content")
    if not isinstance(blocks, list):
        raise EndpointFailed("its answer is not a message of the Anthropic API")
    stopped = get_path(answer, "stop_reason")
    if stopped == "refusal":
        raise EndpointFailed("the model refused to answer")
    named = get_path(answer, "model")
    texts = [_text(get_path(b, "text")) for b in blocks if get_path(b, "type") == "text"]
    return ModelReply(
        text=_handed_in(blocks) or "".join(texts),
        usage=Usage(
            input_tokens=sum(
                parse_token_count(get_path(answer, "usage", name)) for name in _INPUT_TOKEN_FIELDS
            ),
            output_tokens=parse_token_count(get_path(answer, "usage", "output_tokens")),
            model=named[:200] if isinstance(named, str) and named else model,
        ),
        truncated=stopped == "max_tokens",
    )


#: The API counts cached and uncached input tokens separately.
_INPUT_TOKEN_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _handed_in(blocks: list[Json]) -> str | None:
    for block in blocks:
        handed = get_path(block, "input")
        if get_path(block, "type") == "tool_use" and isinstance(handed, dict):
            return json.dumps(handed["data"] if set(handed) == {"data"} else handed)
    return None


ANTHROPIC = WireFormat(
    address=_anthropic_url,
    headers=lambda key: {
        "anthropic-version": _ANTHROPIC_VERSION,
        **({"x-api-key": key} if key else {}),
    },
    request=_anthropic_request,
    read=_anthropic_reply,
)


def format_of_url(url: str) -> WireFormat:
    """Return the wire format of a model endpoint.

    >>> format_of_url("https://api.anthropic.com") is format_of_url("http://h/v1/messages")
    True
    >>> format_of_url("https://api.anthropic.com") is format_of_url("http://h/v1")
    False
    """
    where = urlsplit(url.rstrip("/"))
    is_anthropic = where.hostname == "api.anthropic.com" or where.path.endswith("/messages")
    return ANTHROPIC if is_anthropic else OPENAI


UNSUPPORTED_STATUS = frozenset({400, 404, 415, 422, 501})


class ModelClient:
    def __init__(
        self,
        url: str,
        model: str,
        key: str | None,
        *,
        connections: int = MAX_CONNECTIONS,
        max_retry_seconds: float = math.inf,
    ) -> None:
        self._format = format_of_url(url)
        self._model = model
        headers = self._format.headers(key)
        self._exchange = BoundedHttpClient(
            self._format.address(url),
            headers=headers,
            secret=key,
            connections=connections,
            max_retry_seconds=max_retry_seconds,
        )

    async def complete(self, question: ModelRequest, *, seconds: float) -> ModelReply:
        try:
            return self._format.read(await self._request(question, seconds), self._model)
        except EndpointFailed as failed:
            log.warning("the endpoint of %s: %s", self._model, failed.message)
            raise

    async def _request(self, question: ModelRequest, seconds: float) -> Json:
        """Request structured output, or plain text if the endpoint rejects structured output."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + seconds
        try:
            body = self._format.request(question, self._model)
            return await self._exchange.post(body, seconds=seconds)
        except EndpointFailed as failed:
            if failed.details.get("status") not in UNSUPPORTED_STATUS:
                raise
        plain = self._format.request(question._replace(structured=False), self._model)
        return await self._exchange.post(plain, seconds=deadline - clock())

    async def close(self) -> None:
        await self._exchange.close()
