"""Form bodies: which bodies and CSRF tokens the server accepts."""

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from transport.page_client import Browser
from waybook.errors import Forbidden
from waybook.transport.http.html.layout import COOKIE, FIELD, mask_token, read_form

TOKEN = "t" * 43


async def receive(request: Request) -> PlainTextResponse:
    try:
        fields = await read_form(request)
    except Forbidden as error:
        return PlainTextResponse(error.message, 403)
    return PlainTextResponse(str(fields["said"]))


@pytest.fixture
def browser() -> httpx2.AsyncClient:
    app = Starlette(routes=[Route("/", receive, methods=["POST"])])
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://localhost", cookies={COOKIE: TOKEN}
    )


async def test_form_with_valid_csrf_token_is_accepted(browser: Browser) -> None:
    answer = await browser.post("/", data={FIELD: TOKEN, "said": "grüß dich"})
    assert (answer.status_code, answer.text) == (200, "grüß dich")


def in_parts(alphabet: str, content: bytes) -> tuple[bytes, dict[str, str]]:
    fields = {FIELD: TOKEN.encode(), "said": content}
    parts = [
        b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in fields.items()
    ]
    kind = f"multipart/form-data; boundary=x; charset={alphabet}"
    return b"".join([*parts, b"--x--\r\n"]), {"content-type": kind}


@pytest.mark.parametrize(
    ("alphabet", "said"),
    [("utf-8", b"hello"), ("punycode", b"aaaa-" + b"b" * 1_000_000)],
    ids=["short", "a megabyte that takes hours"],
)
async def test_multipart_form_is_rejected_without_being_parsed(
    browser: Browser, alphabet: str, said: bytes
) -> None:
    body, headers = in_parts(alphabet, said)
    answer = await browser.post("/", content=body, headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "token",
    [
        *("", "é" * 43, "t" * 42, "T" * 43, "t" * 43 + "\0", "=" * 99, "é" * 99),
        *(mask_token("T" * 43), mask_token("t" * 42)),
    ],
)
async def test_form_with_wrong_csrf_token_returns_403(browser: Browser, token: str) -> None:
    answer = await browser.post("/", data={FIELD: token, "said": "hello"})
    assert answer.status_code == 403


async def test_form_with_masked_csrf_token_is_accepted(browser: Browser) -> None:
    masked = {mask_token(TOKEN) for _ in range(3)}
    assert len(masked) == 3
    for token in masked:
        answer = await browser.post("/", data={FIELD: token, "said": "hello"})
        assert answer.status_code == 200
