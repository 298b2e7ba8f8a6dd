"""Tasks that need only text, answered by a model endpoint instead of an agent process."""

import math
import os
from collections.abc import Mapping
from typing import Final

from waybook.errors import EndpointFailed, EndpointUnreachable
from waybook.integrations.llm_client import ModelClient
from waybook.integrations.llm_messages import ModelRequest
from waybook.work.adapters import Endpoint
from waybook.work.results import parse_json
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage

INSTRUCTIONS = "Do the task, and answer with its result only."
MAX_CONNECTIONS = 64
#: A longer Retry-After is not waited for, but is a quota.
MAX_RETRY_SECONDS = 20.0
#: Kinds of errors by the status of the answer.
_KINDS: Final[Mapping[object, OutcomeKind]] = {
    **dict.fromkeys((502, 503, 504, 529), OutcomeKind.NO_NETWORK),
    **dict.fromkeys((401, 403), OutcomeKind.SIGN_IN),
    404: OutcomeKind.NO_MODEL,
    429: OutcomeKind.QUOTA,
}
#: Clients with their connections, which all workers of a process share.
_clients: dict[Endpoint, ModelClient] = {}


async def complete(endpoint: Endpoint, task: Task, limits: Limits) -> Outcome:
    """Send one request with the prompt and return the answer."""
    schema = task.schema if isinstance(task.schema, dict) else {}
    request = ModelRequest(INSTRUCTIONS, task.prompt, schema, structured=bool(schema))
    try:
        reply = await _client(endpoint).complete(request, seconds=limits.seconds)
    except EndpointFailed as error:
        wait = error.asked_delay
        text = error.message if wait is None else f"{error.message}; retry in {wait}s"
        kind = _KINDS.get(error.details.get("status"), OutcomeKind.FAILED)
        if isinstance(error, EndpointUnreachable):
            kind = OutcomeKind.NO_NETWORK
        return Outcome(kind, f"the endpoint: {error.message}", errors=text)
    used = reply.usage
    tokens = (used.input_tokens or 0, used.output_tokens or 0)
    # A dollar per million tokens is a millionth of a dollar per token.
    cost = tokens[0] * endpoint.dollars_per_million_input
    cost += tokens[1] * endpoint.dollars_per_million_output
    usage = Usage(*tokens, math.ceil(cost), used.model)
    result = parse_json(reply.text) if schema else None
    return Outcome(OutcomeKind.DONE, "", reply.text, result, usage)


def _client(endpoint: Endpoint) -> ModelClient:
    if endpoint not in _clients:
        key = os.environ.get(endpoint.key_variable) if endpoint.key_variable else None
        _clients[endpoint] = ModelClient(
            endpoint.url,
            endpoint.model,
            key,
            connections=MAX_CONNECTIONS,
            max_retry_seconds=MAX_RETRY_SECONDS,
        )
    return _clients[endpoint]


async def close_endpoints() -> None:
    """Close the connections of all endpoints."""
    while _clients:
        await _clients.popitem()[1].close()
