"""Compression of responses, and form tokens masked so that compressed sizes do not reveal them."""

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Iterable

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Scope

from browser.served_site import Site, serve_site
from org_env import OrgEnv
from transport.wire import BROWSER_HEADERS, fetch
from waybook.transport.http import connection
from waybook.transport.http.connection import MIN_BYTES, ResponseSend, accepts_gzip, index_headers
from waybook.transport.http.html.assets import NAMES, asset_url, read_asset
from waybook.transport.http.html.layout import COOKIE, MAX_TOKEN_LENGTH, mask_token

TEXT = "Which of them is long? " * 200


@pytest.fixture
async def site(alone: OrgEnv) -> AsyncIterator[Site]:
    async with serve_site(alone) as made:
        yield made


def app_answering(response: Response) -> Starlette:
    async def answer(_: Request) -> Response:
        return response

    return Starlette(routes=[Route("/", answer)])


async def messages_of(response: Response, accepted: bytes = b"gzip") -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        """Wait without end, like a client that sends no body and does not disconnect."""
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"accept-encoding", accepted)],
    }
    accepted_here = accepts_gzip(index_headers(scope["headers"]))
    await app_answering(response)(
        scope, receive, ResponseSend(send, None, accepts_gzip=accepted_here)
    )
    return sent


def headers_in(messages: Iterable[Message]) -> dict[str, str]:
    start = next(message for message in messages if message["type"] == "http.response.start")
    return {name.decode(): value.decode() for name, value in start["headers"]}


def body_in(messages: Iterable[Message]) -> bytes:
    return b"".join(message.get("body", b"") for message in messages)


@pytest.mark.parametrize(
    "kind",
    [
        "text/html; charset=utf-8",
        "application/json",
        "text/css",
        "text/javascript",
        "image/svg+xml",
    ],
)
async def test_response_with_text_content_is_compressed(kind: str) -> None:
    sent = await messages_of(Response(TEXT, media_type=kind))
    headers, body = headers_in(sent), body_in(sent)
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "accept-encoding")
    assert int(headers["content-length"]) == len(body) < len(TEXT) / 10
    assert zlib.decompress(body, connection.GZIP_FORMAT).decode() == TEXT


@pytest.mark.parametrize(
    "response",
    [
        Response(TEXT[: MIN_BYTES - 1], media_type="text/html"),
        Response(TEXT, media_type="image/png"),
        Response(TEXT, media_type="text/event-stream"),
        Response(TEXT, media_type="text/html", headers={"content-encoding": "br"}),
        Response(TEXT, media_type="text/html", headers={"cache-control": "no-transform"}),
        Response(status_code=304, media_type="text/html"),
    ],
    ids=["small", "picture", "events", "encoded", "no-transform", "not modified"],
)
async def test_response_unsuitable_for_compression_is_sent_unchanged(response: Response) -> None:
    sent = await messages_of(response)
    assert body_in(sent) == response.body
    assert headers_in(sent).get("content-encoding") in {None, "br"}


async def test_response_for_a_client_without_gzip_is_sent_unchanged() -> None:
    sent = await messages_of(Response(TEXT, media_type="text/html"), b"br, gzip;q=0")
    assert body_in(sent).decode() == TEXT
    assert headers_in(sent)["vary"] == "accept-encoding"


async def test_compressed_stream_can_be_unpacked_after_every_chunk() -> None:
    async def chunks() -> AsyncIterator[str]:
        yield "first line\n"
        yield "second line\n"

    sent = await messages_of(StreamingResponse(chunks(), media_type="text/csv"))
    unpacker = zlib.decompressobj(connection.GZIP_FORMAT)
    read = [unpacker.decompress(m["body"]) for m in sent if m["type"] == "http.response.body"]
    assert read == [b"first line\n", b"second line\n", b""]
    assert unpacker.eof
    assert "content-length" not in headers_in(sent)


async def test_large_response_compressed_in_a_thread_is_unchanged_when_unpacked() -> None:
    text = TEXT * (connection.MIN_THREAD_BYTES // len(TEXT) + 1)
    sent = await messages_of(Response(text, media_type="text/html"))
    assert zlib.decompress(body_in(sent), connection.GZIP_FORMAT).decode() == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"gzip", True),
        (b"GZIP", True),
        (b"deflate, gzip;q=1.0, *;q=0.5", True),
        (b"*", True),
        (b"gzip;q=0", False),
        (b"gzip; q=0.000", False),
        (b"br", False),
        (b"", False),
        (b"gzip;q=nonsense", False),
    ],
)
def test_accept_encoding_header_decides_whether_gzip_is_used(value: bytes, expected: bool) -> None:  # noqa: FBT001
    assert accepts_gzip(index_headers([(b"accept-encoding", value)])) is expected


async def test_event_stream_of_live_updates_is_not_compressed(site: Site) -> None:
    async with (
        httpx2.AsyncClient(base_url=site.address, trust_env=False) as client,
        client.stream("GET", "/live", headers={"accept-encoding": "gzip"}) as answer,
    ):
        assert "content-encoding" not in answer.headers
        assert (await anext(answer.aiter_lines())).startswith("id: ")


@pytest.mark.parametrize("name", NAMES)
async def test_static_file_is_compressed_cacheable_and_revalidated_by_etag(
    site: Site, name: str
) -> None:
    answer = await fetch(site.address, asset_url(name))
    assert answer.text == read_asset(name)
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    tag = answer.headers["etag"]
    for known in (tag, f"W/{tag}", f'"older", {tag}'):
        again = await fetch(site.address, asset_url(name), {"if-none-match": known})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    plain = await fetch(site.address, asset_url(name), {"if-none-match": '"older"'})
    assert (plain.status, plain.text) == (200, read_asset(name))
    assert "content-encoding" not in plain.headers


async def test_form_token_is_masked_differently_in_every_page(site: Site) -> None:
    """If every page had the same token, attackers could guess it from sizes of compressed pages."""
    await site.world.agent.call(
        "request_user_review",
        stepId=(await site.world.agent.take(await site.world.agent.plan(1)))["stepId"],
        summary="Is this right?",
    )
    secret = "s" * 43
    headers = {**BROWSER_HEADERS, "cookie": f"{COOKIE}={secret}"}
    pages = [(await fetch(site.address, "/inbox", headers)).text for _ in range(2)]
    tokens = [set(re.findall(r'name="token" value="([^"]+)"', page)) for page in pages]
    assert [len(found) for found in tokens] == [1, 1]
    assert not tokens[0] & tokens[1]
    assert all(secret not in page for page in pages)


def test_shortest_masked_form_token_is_longer_than_any_unmasked_token() -> None:
    assert len(mask_token("t" * 32)) > MAX_TOKEN_LENGTH
