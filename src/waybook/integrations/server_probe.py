"""Read the state of running servers from their health checks and metrics."""

import asyncio
import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import httpx2

from waybook.errors import InvalidInput

MAX_SERVERS: Final = 64
PROBE_SECONDS: Final = 5.0
_MAX_ANSWER_BYTES: Final = 1024 * 1024
SAMPLE: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\d+(?:\.\d+)?)$")
MAX_LABEL_LENGTH: Final = 40
LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class ServerState(NamedTuple):
    url: str
    is_alive: bool = False
    is_ready: bool = False
    version: str | None = None
    schema: str | None = None
    #: Whether this server is the leader, which does the periodic work for all orgs.
    leads: bool | None = None
    lag_seconds: float | None = None
    error: str | None = None


def read_urls(text: str) -> list[str]:
    """Return the base URLs in a comma-separated list.

    >>> read_urls("http://127.0.0.1:8080/, https://waybook.example")
    ['http://127.0.0.1:8080', 'https://waybook.example']
    """
    urls = [part.strip().rstrip("/") for part in text.split(",") if part.strip()]
    for url in urls:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise InvalidInput("the URL of a server must not contain a user or a password")
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidInput(f"{url} is not a URL that begins with http:// or https://")
    if not 1 <= len(urls) <= MAX_SERVERS:
        raise InvalidInput(f"name 1 to {MAX_SERVERS} URLs, separated by commas")
    return urls


async def probe_servers(urls: Sequence[str], metrics_token: str | None) -> list[ServerState]:
    return await asyncio.gather(*[_probe_server(url, metrics_token) for url in urls])


async def _probe_server(url: str, metrics_token: str | None) -> ServerState:
    """Return the state of one server. An unreachable server is neither alive nor ready."""
    headers = {"authorization": f"Bearer {metrics_token}"} if metrics_token else {}
    try:
        async with (
            asyncio.timeout(PROBE_SECONDS),
            httpx2.AsyncClient(base_url=url, timeout=PROBE_SECONDS, trust_env=False) as client,
        ):
            alive, _ = await _get(client, "/healthz", {})
            ready, _ = await _get(client, "/readyz", {})
            status, metrics = await _get(client, "/metrics", headers)
    except TimeoutError:
        return ServerState(url, error=f"no answer within {PROBE_SECONDS:g} s")
    except httpx2.HTTPError as error:
        return ServerState(url, error=type(error).__name__)
    state = _read_metrics(url, metrics) if status == httpx2.codes.OK else ServerState(url)
    is_alive, is_ready = alive == httpx2.codes.OK, ready == httpx2.codes.OK
    return state._replace(is_alive=is_alive, is_ready=is_ready)


async def _get(client: httpx2.AsyncClient, path: str, headers: dict[str, str]) -> tuple[int, str]:
    body = b""
    async with client.stream("GET", path, headers=headers) as answer:
        async for chunk in answer.aiter_bytes():
            body += chunk
            if len(body) > _MAX_ANSWER_BYTES:
                break
        return answer.status_code, body[:_MAX_ANSWER_BYTES].decode("utf-8", "replace")


def _read_metrics(url: str, text: str) -> ServerState:
    """Return the state of a server from its metrics in the Prometheus text format.

    >>> _read_metrics("http://a", 'waybook_leader{worker="1"} 1').leads
    True
    """
    version, schema, leads, lags = None, None, None, list[float]()
    for match in filter(None, map(SAMPLE.match, text.splitlines())):
        name, value = match[1], float(match[3])
        labels = {key: label[:MAX_LABEL_LENGTH] for key, label in LABEL.findall(match[2] or "")}
        if name == "waybook_info":
            version, schema = (labels.get(label) for label in ("version", "schema"))
        elif name == "waybook_leader":
            leads = bool(leads) or value == 1
        elif name == "waybook_background_lag_seconds":
            lags.append(value)
    return ServerState(
        url, version=version, schema=schema, leads=leads, lag_seconds=max(lags, default=None)
    )


def differences(states: Sequence[ServerState]) -> list[str]:
    """Return one sentence for each property in which the servers differ but should be equal.

    >>> differences([ServerState("a", version="1"), ServerState("b", version="2")])
    ['The servers have different versions: 1, 2.']
    """
    notes = []
    for noun, values in (
        ("versions", {state.version for state in states if state.version}),
        ("migrations", {state.schema for state in states if state.schema}),
    ):
        if len(values) > 1:
            notes.append(f"The servers have different {noun}: {', '.join(sorted(values))}.")
    known = [state.leads for state in states if state.leads is not None]
    if len(known) == len(states) and sum(known) != 1:
        notes.append(
            f"{sum(known)} servers do the background work; if all use one database, it should be 1."
        )
    return notes
