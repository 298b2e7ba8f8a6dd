"""Request guards on every route, for every host name, origin and method."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from itertools import product

import httpx2
import pytest
from starlette.types import ASGIApp, Message

from database_rows import rows
from org_env import OrgEnv
from transport.full_app import TOKEN, full_app, make_client, routes_of, sample_ids
from transport.valid_forms import valid_forms
from waybook.transport.http.request_checks import COOKIE, HEALTH_PATHS, AllowedHosts

NAME = "plans.example.org"
HOSTS = AllowedHosts(frozenset({NAME, f"{NAME}:8443"}), encrypted=NAME)
OUR_HOSTS = [
    *("localhost", "LOCALHOST:8750", "127.0.0.1", "127.0.0.1:8750", "[::1]", "[::1]:8750"),
    *(NAME, "PLANS.example.ORG", f"{NAME}:8443"),
]
#: Host names that do not belong to Waybook: foreign names that may resolve to our address, and
#: names that look like ours.
OTHER_HOSTS = [
    *("evil.example", "evil.example:8750", f"{NAME}.evil.example", f"evil.{NAME}", f"{NAME}:1"),
    *("localhost.evil.example", "127.0.0.1.nip.io", "localhost.", "127.0.0.1.", f"{NAME}."),
    *("user@localhost", "localhost@evil.example", "user:pass@127.0.0.1:8750", "localhost:8750:1"),
    *("127.0.0.2", "127.1", "0", "2130706433", "0x7f000001", "[::]", "[::2]", "::1"),
    *("[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::1%25lo]", "[::1", "[::1]:x", "localhost:x"),
    *("", " ", "local host", "localhost,evil.example", "localhost/", "http://localhost", "null"),
]
#: Allowed `Origin` headers of a request to localhost:8750.
OUR_ORIGINS = [[], ["http://localhost:8750"], ["HTTP://LOCALHOST:8750"], [f"https://{NAME}"]]
OTHER_ORIGINS = [
    *(
        "null",
        "",
        f"http://{NAME}",
        "http://evil.example",
        "https://evil.example:8750",
        f"https://{NAME}.evil",
    ),
    *("http://localhost", "http://localhost:3000", "http://127.0.0.1:8750", "http://[::1]:8750"),
    *("http://localhost:8750.evil.example", "http://localhost:8750@evil.example"),
    *("http://user@localhost:8750", "file://localhost:8750", "ftp://localhost:8750"),
    *("http://localhost:8750/", "http://localhost:8750 http://evil.example", "localhost:8750"),
    *("chrome-extension://abcdef", "vscode-webview://localhost:8750", f"https://{NAME}:1"),
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]
#: Headers that a browser sends if a page of another site requests our page in the background or
#: embeds it.
EMBEDDED = [
    {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": destination}
    for site, (mode, destination) in product(
        ("cross-site", "same-site"),
        [
            *(("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("no-cors", "empty")),
            *(("navigate", "iframe"), ("navigate", "object"), ("websocket", "empty")),
        ],
    )
]
FOLLOWED = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
}
ELSE = {
    "ending": "json",
    "form": "csv",
    "slug": "deep-research",
    "agent": "ann",
    "version": "x",
    "name": "live.js",
    "stage": "work",
    "step_key": "case",
    "secret": "x",
    "snapshot": "x",
    "decision": "approve",
}

Headers = list[tuple[str, str]]


async def status_and_headers(
    app: ASGIApp, method: str, path: str, headers: Headers
) -> tuple[int, str]:
    messages: list[Message] = []
    heard: list[bool] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
        "server": ("127.0.0.1", 8750),
    }

    async def receive() -> Message:
        if heard:
            await asyncio.Event().wait()
        heard.append(True)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        messages.append(message)

    await app(scope, receive, send)
    return messages[0]["status"], str(messages[0]["headers"])


@pytest.fixture
async def paths(face_world: OrgEnv) -> list[str]:
    """Return a path for every route, and a path without a route."""
    named = {**ELSE, **await sample_ids(face_world.agent)}
    route_paths = {route.path for route in routes_of(full_app(face_world.agent))}
    # Include streaming routes, because they have the same request guards. The response of an
    # accepted stream never ends.
    formats = [re.sub(r"\{(\w+):\w+\}", r"{\1}", path) for path in route_paths]
    filled = [
        path.replace("{secret}/feedback", "{stage_secret}/feedback").format(**named)
        for path in formats
    ]
    return sorted([*filled, "/nowhere"])


async def test_every_route_returns_421_for_other_host_names(
    face_world: OrgEnv, paths: list[str]
) -> None:
    app = full_app(face_world.agent, HOSTS)
    for path, method in product(set(paths) - HEALTH_PATHS, ("GET", "POST", "OPTIONS")):
        for host in OTHER_HOSTS:
            status, _ = await status_and_headers(app, method, path, [("host", host)])
            assert status == 421, (method, path, host)
        for several in ([], ["localhost", "localhost"], ["localhost", "evil.example"]):
            status, _ = await status_and_headers(
                app, method, path, [("host", value) for value in several]
            )
            assert status == 421, (method, path, several)


async def test_every_route_returns_403_for_other_origins(
    face_world: OrgEnv, paths: list[str]
) -> None:
    app, ours = full_app(face_world.agent, HOSTS), ("host", "localhost:8750")
    for path, method in product(paths, METHODS):
        for origin in OTHER_ORIGINS:
            status, headers = await status_and_headers(
                app, method, path, [ours, ("origin", origin)]
            )
            assert status == 403, (method, path, origin)
            assert "access-control" not in headers
    both = [ours, ("origin", "http://localhost:8750"), ("origin", "http://evil.example")]
    for path in paths:
        assert (await status_and_headers(app, "POST", path, both))[0] == 403, path


async def test_every_route_returns_403_for_cross_site_requests(
    face_world: OrgEnv, paths: list[str]
) -> None:
    app, ours = full_app(face_world.agent, HOSTS), ("host", "localhost:8750")
    for path, method, fetch_headers in product(paths, ("GET", "POST"), EMBEDDED):
        status, _ = await status_and_headers(app, method, path, [ours, *fetch_headers.items()])
        assert status == 403, (method, path, fetch_headers)
    for path in paths:
        status, _ = await status_and_headers(app, "POST", path, [ours, *FOLLOWED.items()])
        assert status == 403, path


async def test_every_route_accepts_allowed_hosts_and_origins(
    face_world: OrgEnv, paths: list[str]
) -> None:
    app = full_app(face_world.agent, HOSTS)
    finite = [path for path in paths if path not in {"/live", "/mcp", "/mcp/"}]
    extra: tuple[dict[str, str], ...] = ({}, FOLLOWED, {**FOLLOWED, "sec-fetch-site": "none"})
    allowed = [[("host", host)] for host in OUR_HOSTS] + [
        [("host", "localhost:8750"), *(("origin", origin) for origin in origins), *more.items()]
        for origins, more in product(OUR_ORIGINS, extra)
    ]
    for number, path in enumerate(finite):
        # The routes have the same checks, so each route gets some of the combinations.
        for headers in allowed[number % 4 :: 4]:
            status, _ = await status_and_headers(app, "GET", path, headers)
            assert status in {200, 404, 405}, (path, headers)


# Forms


def wrong_tokens() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield pairs of CSRF cookie and form field that do not match or are invalid."""
    yield {}, {}
    yield {COOKIE: TOKEN}, {}
    yield {}, {"token": TOKEN}
    yield {COOKIE: TOKEN}, {"token": "u" * 43}
    yield {COOKIE: "u" * 43}, {"token": TOKEN}
    yield {COOKIE: ""}, {"token": ""}
    yield {COOKIE: "t"}, {"token": "t"}
    yield {COOKIE: "t" * 100}, {"token": "t" * 100}


async def test_post_forms_succeed_only_with_a_csrf_token(face_world: OrgEnv) -> None:
    app = full_app(face_world.agent)
    forms = await valid_forms(face_world.agent)
    takers = {
        route.path
        for route in routes_of(app)
        if "POST" in (route.methods or ()) and not route.path.startswith("/api/")
    }
    assert set(forms) == takers
    before = rows(face_world)
    for (where, fields), (cookies, token) in product(forms.values(), wrong_tokens()):
        async with make_client(app) as client:
            client.cookies = httpx2.Cookies(cookies)
            reply = await client.post(where, data={**fields, **token})
        assert reply.status_code == 403, (where, cookies, token)
    assert rows(face_world) == before
    async with make_client(app) as client:
        for where, fields in forms.values():
            reply = await client.post(where, data={**fields, "token": TOKEN})
            assert reply.status_code == 303, (where, reply.text)
            assert rows(face_world) != before, where
            before = rows(face_world)


# Tests of the headers of every response.


def judge(reply: httpx2.Response) -> None:
    """Check that response headers prevent framing, sniffing, cross-origin reads, inline code."""
    headers, where = reply.headers, reply.request.url.path
    assert headers["x-content-type-options"] == "nosniff", where
    assert headers["x-frame-options"] == "DENY", where
    assert headers["cross-origin-resource-policy"] == "same-origin", where
    assert headers["referrer-policy"] in {"no-referrer", "same-origin"}, where
    assert "access-control-allow-origin" not in headers
    policy = directives(headers["content-security-policy"])
    assert policy["default-src"] == "'none'", where
    assert policy["frame-ancestors"] == "'none'", where
    assert "unsafe" not in headers["content-security-policy"], where
    for source in (word for words in policy.values() for word in words.split()):
        assert source in {"'none'", "'self'", "data:"} or source.startswith("'sha256-"), where
    if headers.get("content-type", "").startswith("text/html"):
        assert policy["base-uri"] == "'none'", where
        assert policy["form-action"] in {"'self'", "'none'"}, where
        assert "data:" not in policy.get("script-src", ""), where
        assert headers["cross-origin-opener-policy"] == "same-origin", where
        assert headers["cache-control"] == "no-store", where


def directives(policy: str) -> Mapping[str, str]:
    by_name = {}
    for part in policy.split(";"):
        name, _, words = part.strip().partition(" ")
        by_name[name] = words
    return by_name


async def test_every_response_has_security_headers(face_world: OrgEnv, paths: list[str]) -> None:
    app, seen = full_app(face_world.agent), set()
    async with make_client(app) as client:
        for path, accept in product(paths, ("text/html", "application/json")):
            for method in ("GET", "POST") if path not in {"/live", "/mcp", "/mcp/"} else ():
                reply = await client.request(method, path, headers={"accept": accept})
                judge(reply)
                seen.add((reply.status_code, reply.headers["content-type"].split(";")[0]))
        for headers in ({"host": "evil.example"}, {"origin": "null"}, EMBEDDED[0]):
            judge(await client.get("/", headers=headers))
        judge(await client.post("/api/map", content=b"x" * (1 << 20) + b"x"))
    assert {status for status, _ in seen} >= {200, 400, 403, 404, 405}
    assert {kind for _, kind in seen} >= {"text/html", "application/json", "text/javascript"}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_every_cookie_is_httponly_samesite_strict_and_host_only(
    face_world: OrgEnv, paths: list[str], scheme: str
) -> None:
    app, cookies = full_app(face_world.agent), []
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    for path in paths:
        if path not in {"/live", "/mcp", "/mcp/"}:
            async with httpx2.AsyncClient(
                transport=transport, base_url=f"{scheme}://localhost"
            ) as c:
                reply = await c.get(path, headers={"accept": "text/html"})
                cookies += reply.headers.get_list("set-cookie")
    assert cookies
    for cookie in cookies:
        words = {word.strip().lower() for word in cookie.split(";")[1:]}
        assert words >= {"httponly", "samesite=strict", "path=/"}
        assert ("secure" in words) == (scheme == "https")
        assert not [word for word in words if word.startswith("domain")]
