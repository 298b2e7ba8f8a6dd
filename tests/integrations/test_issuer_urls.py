"""Endpoint URLs in an issuer's metadata: URLs that may lead to another server are refused."""

from collections.abc import AsyncIterator

import pytest

from fake_issuer import FakeIssuer, fake_issuer
from org_env import NOON
from waybook.errors import Unavailable
from waybook.integrations.config import issuer_from_settings
from waybook.integrations.oidc_issuer import Issuer
from waybook.settings import Settings

AUDIENCE = "http://localhost/mcp"


@pytest.fixture
async def there() -> AsyncIterator[FakeIssuer]:
    async with fake_issuer() as made:
        yield made


@pytest.fixture
async def issuer(there: FakeIssuer) -> AsyncIterator[Issuer]:
    settings = issuer_from_settings(
        Settings(oidc_issuer=there.url, oidc_org="acme", public_url="http://localhost")
    )
    assert settings is not None
    made = Issuer(settings)
    yield made
    await made.close()


def unsafe(there: FakeIssuer, path: str) -> list[str]:
    """Return invalid endpoint URLs: empty, relative, on another host, or with unsafe parts."""
    return [
        "",
        path,
        f"http://id.example.org{path}",
        f"file://{path}",
        there.url.replace("http://", "http://ann@") + path,
        f"{there.url}{path}#part",
    ]


@pytest.mark.parametrize("number", range(6))
async def test_unsafe_key_address_of_an_issuer_is_never_requested(
    there: FakeIssuer, issuer: Issuer, number: int
) -> None:
    there.last_error = {"jwks_uri": unsafe(there, "/jwks")[number]}
    with pytest.raises(Unavailable):
        await issuer.claims(there.token(), audience=AUDIENCE, now=NOON)
    assert not there.request_counts["jwks"]


@pytest.mark.parametrize("door", ["authorization_endpoint", "token_endpoint"])
async def test_unsafe_sign_in_address_of_an_issuer_raises_unavailable(
    there: FakeIssuer, issuer: Issuer, door: str
) -> None:
    safe = await issuer.endpoints()
    assert (safe.authorize, safe.token) == (f"{there.url}/authorize", f"{there.url}/token")
    for address in unsafe(there, "/authorize"):
        there.last_error = {door: address}
        other = Issuer(issuer.settings)
        with pytest.raises(Unavailable):
            await other.endpoints()
        await other.close()
