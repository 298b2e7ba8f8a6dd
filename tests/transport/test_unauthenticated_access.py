"""Access without authentication: the public routes, and allowed host names and origins."""

import re
from collections.abc import AsyncIterator
from itertools import product

import httpx2
import pytest

from org_env import OrgEnv
from sign_in_env import Team, make_team
from transport.full_app import routes_of
from transport.test_route_access import ELSE, EMBEDDED, judge, status_and_headers
from waybook.store.driver.queries import new_uuid
from waybook.transport.http.request_checks import HEALTH_PATHS

#: Public routes, each with the status of its response.
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
async def team(face_world: OrgEnv) -> AsyncIterator[Team]:
    async with make_team(face_world) as made:
        yield made


def addressed(route: str) -> str:
    """Return a URL of this route with ids that do not exist."""
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
            judge(reply)
            if route in OPEN:
                assert reply.status_code == OPEN[route], route
            elif reply.status_code == 303:
                assert reply.headers["location"].startswith("/sign-in?then="), route
            else:
                assert reply.status_code == 401, (route, kind)
            if route not in {"/sign-in", *OPEN}:
                sent = await stranger.post(path, headers={"accept": kind})
                judge(sent)
                assert sent.status_code in {401, 303}, (route, kind)


#: Characters in a path that routers and auth gates may interpret differently.
BENT = ("%0a", "%0d", "%09", "%00", "%3f", "%23", "%2f", "%5c", "/", ";", "/../", "%2e%2e/", " ")


async def test_distorted_path_does_not_bypass_authentication(team: Team) -> None:
    """A distorted path that authentication treats as public must not reach a protected route."""
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
