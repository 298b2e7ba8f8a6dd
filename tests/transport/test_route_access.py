"""Checks of every route: host names, origins, methods, sign-in, and isolation of orgs."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import product

import httpx2
import pytest
from starlette.types import ASGIApp, Message

from database_rows import rows
from foreign_records import all_foreign_records
from org_env import AgentClient, OrgEnv
from sign_in_env import Team, make_team
from transport.full_app import TOKEN, full_app, make_client, routes_of, sample_ids
from transport.page_client import FORM_TOKEN, make_browser
from transport.valid_forms import valid_forms
from waybook.background import index_all_orgs
from waybook.store.calls import LoggedCall
from waybook.store.driver.queries import new_uuid
from waybook.transport.http.app import HEALTH_PATHS, AllowedHosts
from waybook.transport.http.html.layout import COOKIE, THEME_COOKIE

NAME = "plans.example.org"
HOSTS = AllowedHosts(frozenset({NAME, f"{NAME}:8443"}), encrypted=NAME)
OUR_HOSTS = [
    *("localhost", "LOCALHOST:8750", "127.0.0.1", "127.0.0.1:8750", "[::1]", "[::1]:8750"),
    *(NAME, "PLANS.example.ORG", f"{NAME}:8443"),
]
#: Host names that the server must refuse: names of other sites, which may resolve to our address,
#: and names that look like ours.
OTHER_HOSTS = [
    *("evil.example", "evil.example:8750", f"{NAME}.evil.example", f"evil.{NAME}", f"{NAME}:1"),
    *("localhost.evil.example", "127.0.0.1.nip.io", "localhost.", "127.0.0.1.", f"{NAME}."),
    *("user@localhost", "localhost@evil.example", "user:pass@127.0.0.1:8750", "localhost:8750:1"),
    *("127.0.0.2", "127.1", "0", "2130706433", "0x7f000001", "[::]", "[::2]", "::1"),
    *("[::ffff:127.0.0.1]", "[0:0:0:0:0:0:0:1]", "[::1%25lo]", "[::1", "[::1]:x", "localhost:x"),
    *("", " ", "local host", "localhost,evil.example", "localhost/", "http://localhost", "null"),
]
#: Lists of `Origin` headers that are allowed in requests to localhost:8750; the first list is
#: empty.
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
#: Headers that a browser sends if a page of another site embeds our page or requests it from a
#: script.
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
    "view": "plans",
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
async def paths(alone: OrgEnv) -> list[str]:
    """Return a path for each route, and a path that belongs to no route."""
    named = {**ELSE, **await sample_ids(alone.agent)}
    route_paths = {route.path for route in routes_of(full_app(alone.agent))}
    # Include the routes of streams, because they have the same checks. A test must not read such a
    # response, because it does not end.
    formats = [re.sub(r"\{(\w+):\w+\}", r"{\1}", path) for path in route_paths]
    filled = [
        path.replace("{secret}/feedback", "{stage_secret}/feedback").format(**named)
        for path in formats
    ]
    return sorted([*filled, "/nowhere"])


async def test_every_route_returns_421_for_other_host_names(
    alone: OrgEnv, paths: list[str]
) -> None:
    app = full_app(alone.agent, HOSTS)
    for path, method in product(set(paths) - HEALTH_PATHS, ("GET", "POST", "OPTIONS")):
        for host in OTHER_HOSTS:
            status, _ = await status_and_headers(app, method, path, [("host", host)])
            assert status == 421, (method, path, host)
        for several in ([], ["localhost", "localhost"], ["localhost", "evil.example"]):
            status, _ = await status_and_headers(
                app, method, path, [("host", value) for value in several]
            )
            assert status == 421, (method, path, several)


async def test_every_route_returns_403_for_other_origins(alone: OrgEnv, paths: list[str]) -> None:
    app, ours = full_app(alone.agent, HOSTS), ("host", "localhost:8750")
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
    alone: OrgEnv, paths: list[str]
) -> None:
    app, ours = full_app(alone.agent, HOSTS), ("host", "localhost:8750")
    for path, method, fetch_headers in product(paths, ("GET", "POST"), EMBEDDED):
        status, _ = await status_and_headers(app, method, path, [ours, *fetch_headers.items()])
        assert status == 403, (method, path, fetch_headers)
    for path in paths:
        status, _ = await status_and_headers(app, "POST", path, [ours, *FOLLOWED.items()])
        assert status == 403, path


async def test_every_route_accepts_allowed_hosts_and_origins(
    alone: OrgEnv, paths: list[str]
) -> None:
    app = full_app(alone.agent, HOSTS)
    finite = [path for path in paths if path not in {"/live", "/mcp", "/mcp/"}]
    extra: tuple[dict[str, str], ...] = ({}, FOLLOWED, {**FOLLOWED, "sec-fetch-site": "none"})
    allowed = [[("host", host)] for host in OUR_HOSTS] + [
        [("host", "localhost:8750"), *(("origin", origin) for origin in origins), *more.items()]
        for origins, more in product(OUR_ORIGINS, extra)
    ]
    for number, path in enumerate(finite):
        # The checks are the same for all routes, so a quarter of the combinations is enough for
        # each.
        for headers in allowed[number % 4 :: 4]:
            status, _ = await status_and_headers(app, "GET", path, headers)
            assert status in {200, 404, 405}, (path, headers)


# Tests of the CSRF token of forms.


def wrong_tokens() -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Yield pairs of cookie and form field that do not form a valid CSRF token."""
    yield {}, {}
    yield {COOKIE: TOKEN}, {}
    yield {}, {"token": TOKEN}
    yield {COOKIE: TOKEN}, {"token": "u" * 43}
    yield {COOKIE: "u" * 43}, {"token": TOKEN}
    yield {COOKIE: ""}, {"token": ""}
    yield {COOKIE: "t"}, {"token": "t"}
    yield {COOKIE: "t" * 100}, {"token": "t" * 100}


async def test_post_forms_succeed_only_with_a_csrf_token(alone: OrgEnv) -> None:
    app = full_app(alone.agent)
    forms = await valid_forms(alone.agent)
    takers = {
        route.path
        for route in routes_of(app)
        if "POST" in (route.methods or ()) and not route.path.startswith("/api/")
    }
    assert set(forms) == takers
    before = rows(alone)
    for (where, fields), (cookies, token) in product(forms.values(), wrong_tokens()):
        async with make_client(app) as client:
            client.cookies = httpx2.Cookies(cookies)
            reply = await client.post(where, data={**fields, **token})
        assert reply.status_code == 403, (where, cookies, token)
    assert rows(alone) == before
    async with make_client(app) as client:
        for where, fields in forms.values():
            reply = await client.post(where, data={**fields, "token": TOKEN})
            assert reply.status_code == (200 if "selected" in where else 303), (where, reply.text)
            # The theme is stored in a cookie.
            assert rows(alone) != before or THEME_COOKIE in reply.cookies, where
            before = rows(alone)


# Tests of the headers of every response.


def check_security_headers(reply: httpx2.Response) -> None:
    """Check that headers forbid framing, sniffing, cross-origin reads and inline code."""
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


async def test_every_response_has_security_headers(alone: OrgEnv, paths: list[str]) -> None:
    app, seen = full_app(alone.agent), set()
    async with make_client(app) as client:
        for path, accept in product(paths, ("text/html", "application/json")):
            for method in ("GET", "POST") if path not in {"/live", "/mcp", "/mcp/"} else ():
                reply = await client.request(method, path, headers={"accept": accept})
                check_security_headers(reply)
                seen.add((reply.status_code, reply.headers["content-type"].split(";")[0]))
        for headers in ({"host": "evil.example"}, {"origin": "null"}, EMBEDDED[0]):
            check_security_headers(await client.get("/", headers=headers))
        check_security_headers(await client.post("/api/map", content=b"x" * (1 << 20) + b"x"))
    assert {status for status, _ in seen} >= {200, 400, 403, 404, 405}
    assert {kind for _, kind in seen} >= {"text/html", "application/json", "text/javascript"}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_every_cookie_is_httponly_samesite_strict_and_host_only(
    alone: OrgEnv, paths: list[str], scheme: str
) -> None:
    app, cookies = full_app(alone.agent), []
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


# Tests of clients that have not signed in.


#: Public routes, with the status of the response.
OPEN = {
    "/healthz": 200,
    "/readyz": 200,
    "/sign-in": 200,
    "/sign-in/oidc": 303,
    "/sign-in/callback": 403,
    "/static/{version}/{name}": 200,
    "/metrics": 404,
    "/act/{secret}/{decision}": 404,
    "/act/{secret}/feedback": 404,
    "/shared/{snapshot}": 404,
    "/shared/{snapshot}/file": 404,
    "/.well-known/oauth-protected-resource": 200,
    "/.well-known/oauth-protected-resource/mcp": 200,
}


@pytest.fixture
async def team(alone: OrgEnv) -> AsyncIterator[Team]:
    async with make_team(alone) as made:
        yield made


def addressed(route: str) -> str:
    """Return a URL of this route, with ids that do not exist."""
    places = {**ELSE, **dict.fromkeys(re.findall(r"\{(\w+_id)\}", route), new_uuid())}
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: places[match[1]], route)


def paths_of(team: Team) -> dict[str, str]:
    return {route.path: addressed(route.path) for route in routes_of(team.app())}


async def test_unauthenticated_client_reaches_only_public_routes(team: Team) -> None:
    app, paths = team.app(), paths_of(team)
    assert set(OPEN) <= set(paths)
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as stranger:
        for (route, path), kind in product(paths.items(), ("text/html", "application/json")):
            reply = await stranger.get(path, headers={"accept": kind})
            check_security_headers(reply)
            if route in OPEN:
                assert reply.status_code == OPEN[route], route
            elif reply.status_code == 303:
                assert reply.headers["location"].startswith("/sign-in?then="), route
            else:
                assert reply.status_code == 401, (route, kind)
            if route not in {"/sign-in", *OPEN}:
                sent = await stranger.post(path, headers={"accept": kind})
                check_security_headers(sent)
                assert sent.status_code in {401, 303}, (route, kind)


#: Texts in a path that routing and authentication might interpret differently.
BENT = ("%0a", "%0d", "%09", "%00", "%3f", "%23", "%2f", "%5c", "/", ";", "/../", "%2e%2e/", " ")


async def test_manipulated_url_path_does_not_bypass_authentication(team: Team) -> None:
    """No protected route may be reached by a path that authentication takes for a public one."""
    app, shut = (
        team.app(),
        {path: at for path, at in paths_of(team).items() if path not in {"/", *OPEN}},
    )
    transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as stranger:
        for at, bend in product(shut.values(), BENT):
            for bent in (at + bend, bend + at, f"/static{bend}{at}"):
                reply = await stranger.get(f"http://localhost/{bent.removeprefix('/')}")
                assert reply.status_code in {401, 404}, bent


async def test_other_host_or_origin_is_rejected_before_sign_in(team: Team) -> None:
    app, ours = team.app(), ("host", "localhost")
    for path, method in product(paths_of(team).values(), ("GET", "POST")):
        other = await status_and_headers(app, method, path, [("host", "evil.example")])
        assert other[0] == 421 or path in HEALTH_PATHS, (path, method)
        for more in ({"origin": "http://evil.example"}, EMBEDDED[0]):
            status, _ = await status_and_headers(app, method, path, [ours, *more.items()])
            assert status == 403, (path, method, more)


# Tests of the isolation of orgs.


#: Routes whose response does not end. `test_live.py` tests them.
STREAMS = {"/live"}
#: Routes that show data about the whole server, for its operator.
OPERATORS = {"/metrics"}
LISTS: Mapping[str, Mapping[str, object]] = {
    "list_active_plans": {},
    "list_dags": {},
    "list_skills": {},
    "search_sources": {"query": "longest river Nile"},
}


async def pages(
    agent: AgentClient, client: httpx2.AsyncClient, named: Mapping[str, str]
) -> dict[str, str]:
    contents = {}
    for route in routes_of(full_app(agent)):
        if "GET" in (route.methods or ()) and route.path not in STREAMS | OPERATORS:
            # A link to a stage and a link to a review have different secrets.
            path = route.path.replace("{secret}/feedback", "{stage_secret}/feedback")
            path = re.sub(r"\{(\w+):\w+\}", r"{\1}", path).format(**{**ELSE, **named})
            reply = await client.get(path, headers={"accept": "text/html"})
            assert reply.status_code == 200, path
            text = re.sub(r'name="(?:key|token)" value="[^"]+"', "", reply.text)
            # The length of a compressed page depends on random keys and tokens, which `text` does
            # not contain.
            headers = {k: v for k, v in reply.headers.items() if k != "content-length"}
            contents[path] = f"{headers}\n{text}"
    return contents


async def indexed(agent: AgentClient) -> None:
    while await index_all_orgs(agent.dispatcher.services):
        pass


async def test_work_of_another_org_changes_no_page_or_reply(
    alone: OrgEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, agent, log = alone, alone.agent, alone.dispatcher.calls
    world.other_org_may_change = True
    await all_foreign_records(agent)
    named = await sample_ids(agent)
    await indexed(agent)
    listed = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    await log.flush()
    record = log.record

    def record_other_org(call: LoggedCall) -> None:
        # Some pages call a tool in our org. Do not record these calls, so that the page with the
        # tool calls of our org stays the same.
        if call.org_id == world.other_org.org_id:
            record(call)

    monkeypatch.setattr(log, "record", record_other_org)
    async with make_client(full_app(agent)) as client:
        before = await pages(agent, client, named)
        await all_foreign_records(world.other_org)
        await log.flush()
        log.dropped_of[world.other_org.org_id] += 7
        await indexed(agent)
        after = await pages(agent, client, named)
    assert {path for path in before if before[path] != after[path]} == set()
    again = {tool: (await agent.ask(tool, arguments)).body for tool, arguments in LISTS.items()}
    assert again == listed


# Tests of forms with invalid values.


GARBAGE = ("", "a\0b", "9" * 5_000, "-1", "²", "٣" * 5_000, "é" * 2_000)
#: Forms with valid names of fields, but with NUL characters in values, which PostgreSQL cannot
#: store.
OF_TOKENS = (
    {"act": "disable", "user": "an\0n"},
    {"act": "create", "user": "\0", "label": "x", "scope": "plan:read", "days": "9" * 5_000},
    {"act": "revoke", "id": "\0", "confirmed": "yes"},
)


async def test_form_fields_with_invalid_values_never_cause_server_error(alone: OrgEnv) -> None:
    forms = list((await valid_forms(alone.agent)).values())
    forms += [("/tokens", fields) for fields in OF_TOKENS]
    async with make_browser(alone.agent) as browser:
        match = FORM_TOKEN.search((await browser.get("/tokens")).text)
        assert match
        for at, sound in forms:
            for name, garbage in product(sound, GARBAGE):
                fields = {"token": match[1], **sound, name: garbage}
                reply = await browser.post(at, data=fields)
                assert reply.status_code < 500, (at, name, garbage[:10])
