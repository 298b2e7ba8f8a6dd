"""Outgoing HTTP requests, which always end, even if the server misbehaves."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fake_endpoint import (
    EndpointServer,
    Play,
    answer,
    close_early,
    endless_body,
    fake_endpoint,
    invalid_body,
    never_respond,
    slow_body,
    truncated_body,
    unused_url,
)
from waybook.errors import EndpointFailed, Misconfigured
from waybook.integrations.http_client import MAX_BYTES, MAX_RETRIES, BoundedHttpClient

KEY = "sk-of-the-operator"
SECONDS = 20.0
#: Timeout in seconds for requests to servers that do not answer, long enough to send a request.
SHORT = 0.2


@asynccontextmanager
async def open_exchange(*plays: Play) -> AsyncIterator[tuple[EndpointServer, BoundedHttpClient]]:
    async with fake_endpoint(*plays) as other:
        headers = {"authorization": f"Bearer {KEY}"}
        exchange = BoundedHttpClient(f"{other.url}/v1/x", headers=headers, secret=KEY)
        try:
            yield other, exchange
        finally:
            await exchange.close()


async def failure(*plays: Play, seconds: float = SECONDS) -> tuple[EndpointFailed, int]:
    """Return the error of an HTTP exchange that fails, and the number of its requests."""
    async with open_exchange(*plays) as (other, exchange):
        with pytest.raises(EndpointFailed) as failed:
            await exchange.post({"a": 1}, seconds=seconds)
        return failed.value, len(other.requests)


async def test_http_client_posts_json_with_headers_and_returns_json() -> None:
    async with open_exchange(answer({"b": ["☃"]})) as (other, exchange):
        assert await exchange.post({"a": "☃"}, seconds=SECONDS) == {"b": ["☃"]}
        (request,) = other.requests
    assert (request.path, request.body) == ("/v1/x", {"a": "☃"})
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_http_client_completes_40_concurrent_posts() -> None:
    async with open_exchange(answer(1)) as (other, exchange):
        calls = [exchange.post(n, seconds=SECONDS) for n in range(40)]
        assert await asyncio.gather(*calls) == [1] * 40
        assert sorted(request.body for request in other.requests) == [*range(40)]


@pytest.mark.parametrize("play", [never_respond, slow_body])
async def test_http_client_fails_if_response_is_incomplete_at_the_timeout(play: Play) -> None:
    failed, _ = await failure(play, seconds=SHORT)
    assert failed.message == "it did not finish answering within 0.2 s"


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_http_client_with_zero_or_negative_timeout_sends_no_request(seconds: float) -> None:
    failed, request_count = await failure(answer(1), seconds=seconds)
    assert (failed.message, request_count) == ("it did not finish answering within 0 s", 0)


async def test_http_client_stops_an_endless_response_at_byte_limit() -> None:
    failed, _ = await failure(endless_body)
    assert failed.message == f"it answered with more than {MAX_BYTES:,} bytes"


@pytest.mark.parametrize("beyond", [0, 1])
async def test_http_client_refuses_only_responses_above_the_byte_limit(beyond: int) -> None:
    body, most = ["x" * (98 + beyond)], 98 + len('[""]')
    async with open_exchange(answer(body)) as (_, exchange):
        exchange.most_bytes = most
        if not beyond:
            assert await exchange.post({}, seconds=SECONDS) == body
            return
        with pytest.raises(EndpointFailed, match="more than 102 bytes"):
            await exchange.post({}, seconds=SECONDS)


async def test_http_client_refuses_a_compressed_answer() -> None:
    failed, _ = await failure(answer("{}", content_encoding="gzip"))
    assert "compressed" in failed.message


@pytest.mark.parametrize("play", [truncated_body, invalid_body, close_early])
async def test_http_client_reports_a_broken_connection_with_a_generic_message(play: Play) -> None:
    failed, _ = await failure(play)
    assert failed.message.startswith("the connection broke (")


async def test_http_client_raises_endpoint_failed_if_host_is_unreachable() -> None:
    exchange = BoundedHttpClient(await unused_url(), headers={})
    with pytest.raises(EndpointFailed, match="it cannot be reached"):
        await exchange.post(1, seconds=SECONDS)
    await exchange.close()


@pytest.mark.parametrize("body", ["", "{", "<html>", "[NaN]", "[" * 100_000])
async def test_http_client_raises_endpoint_failed_if_response_is_not_json(body: str) -> None:
    failed, _ = await failure(answer(body))
    assert failed.message == "it did not answer with JSON"


async def test_http_client_does_not_follow_a_redirect() -> None:
    async with fake_endpoint(answer(1)) as elsewhere:
        failed, _ = await failure(answer("", 307, location=elsewhere.url))
        assert elsewhere.requests == []
    assert failed.details == {"status": 307}


# Tests of error responses.


@pytest.mark.parametrize(
    "body", [{"error": {"message": "No."}}, {"error": "No."}, {"detail": "No."}]
)
async def test_http_client_error_contains_the_error_message_of_the_response(body: object) -> None:
    failed, request_count = await failure(answer(body, 400))
    assert (failed.message, failed.details, request_count) == (
        "it answered 400: No.",
        {"status": 400},
        1,
    )


@pytest.mark.parametrize("body", ["", "<html>", [], {}, {"error": {"message": [1]}}, {"error": 3}])
async def test_http_client_error_shows_only_status_if_response_has_no_message(body: object) -> None:
    failed, request_count = await failure(answer(body, 500))
    assert (failed.message, request_count) == ("it answered 500", 1)


async def test_http_client_shortens_a_long_error_message() -> None:
    failed, _ = await failure(answer({"error": "x" * 10_000}, 400))
    assert len(failed.message) < 400


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
async def test_http_client_error_does_not_contain_the_api_key(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    failed, _ = await failure(answer({"error": {"message": f"Bad key {KEY}."}}, status))
    assert KEY not in f"{failed.as_json()} {failed!r} {caplog.text}"
    assert "Bad key" not in failed.message or status not in {401, 403}


@pytest.mark.parametrize("key", ["sk\nof-the-operator", "sk-öperator", "\x7foperator"])
def test_http_client_error_does_not_show_an_invalid_api_key(key: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        BoundedHttpClient("http://127.0.0.1", headers={"x-api-key": key})
    assert "operator" not in refused.value.message.replace("ö", "o")


# Tests of retries.


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize("after", ["0", "0.01", "Thu, 01 Jan 1970 00:00:00 GMT"])
async def test_http_client_retries_if_retry_after_is_soon_enough(status: int, after: str) -> None:
    busy = answer({}, status, retry_after=after)
    async with open_exchange(busy, answer({"b": 1})) as (other, exchange):
        assert await exchange.post({"a": 1}, seconds=SECONDS) == {"b": 1}
        assert [request.body for request in other.requests] == [{"a": 1}] * 2


@pytest.mark.parametrize("after", ["3600", "inf", "nan", "-1", "soon", "1e400"])
async def test_http_client_ignores_an_invalid_or_too_long_retry_after(after: str) -> None:
    failed, request_count = await failure(answer({}, 429, retry_after=after))
    assert (failed.details, request_count) == ({"status": 429}, 1)


async def test_http_client_does_not_retry_status_429_without_retry_after() -> None:
    failed, request_count = await failure(answer({}, 429))
    assert (failed.message, request_count) == ("it answered 429", 1)


async def test_http_client_stops_after_the_maximum_number_of_retries() -> None:
    failed, request_count = await failure(answer({}, 429, retry_after="0"))
    assert (failed.details, request_count) == ({"status": 429}, 1 + MAX_RETRIES)


async def test_canceled_http_request_does_not_affect_the_next_request() -> None:
    async with open_exchange(never_respond, answer(1)) as (other, exchange):
        leaving = asyncio.create_task(exchange.post(1, seconds=SECONDS))
        await other.heard.wait()
        leaving.cancel()
        await asyncio.wait([leaving])
        assert leaving.cancelled()
        assert await exchange.post(2, seconds=SECONDS) == 1
