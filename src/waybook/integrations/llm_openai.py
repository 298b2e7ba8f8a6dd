"""Wire format of OpenAI's Chat Completions API, which many other servers implement too."""

from waybook.core.usage import Usage
from waybook.errors import EndpointFailed
from waybook.integrations.llm_messages import (
    ModelReply,
    ModelRequest,
    WireFormat,
    get_path,
    parse_token_count,
)
from waybook.json_values import Json

PATH = "/chat/completions"


def endpoint_url(url: str) -> str:
    """Return the URL of the Chat Completions API endpoint.

    >>> endpoint_url("http://127.0.0.1:8000/v1/")
    'http://127.0.0.1:8000/v1/chat/completions'
    """
    url = url.rstrip("/")
    return url if url.endswith(PATH) else url + PATH


def headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def build_request(question: ModelRequest, model: str) -> dict[str, Json]:
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


def parse_reply(answer: Json, model: str) -> ModelReply:
    """Parse the language model's reply.

    Raises:
        EndpointFailed: the JSON is not a chat completion, or the model refused to answer.
    """
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
    """Return the text of the model's message."""
    if isinstance(content, list):
        return "".join(_text(get_path(part, "text")) for part in content)
    return content if isinstance(content, str) else ""


OPENAI = WireFormat(address=endpoint_url, headers=headers, request=build_request, read=parse_reply)
