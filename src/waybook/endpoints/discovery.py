"""What an issuer says of itself: where its doors are, and which keys it signs with."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from waybook.endpoints.exchange import BoundedHttpClient
from waybook.endpoints.issuer_settings import is_secure_url
from waybook.endpoints.jwt_checks import Key, parse_key
from waybook.errors import EndpointFailed
from waybook.record.oddities import escape_hidden

MAX_BYTES: Final = 256 * 1024
SECONDS: Final = 5.0
MAX_KEYS: Final = 100
MAX_NAME_LENGTH: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerEndpoints:
    """Where an issuer is asked for what."""

    keys: str
    authorize: str
    token: str
    #: Whether the client's secret goes into the form, and not into a header.
    secret_in_form: bool


async def discover_endpoints(issuer: str) -> IssuerEndpoints:
    """What the issuer says of itself, at the address of OpenID Connect or of RFC 8414.

    Raises:
        EndpointFailed: nothing that can be used, or it is another issuer.
    """
    base = issuer.rstrip("/")
    try:
        return _doors_in(await fetch_json(f"{base}/.well-known/openid-configuration"), issuer)
    except EndpointFailed as error:
        if error.details.get("status") != 404:  # noqa: PLR2004 - it is not there
            raise
    where = urlsplit(base)
    known = f"{where.scheme}://{where.netloc}/.well-known/oauth-authorization-server"
    return _doors_in(await fetch_json(f"{known}{where.path}"), issuer)


async def fetch_keys(doors: IssuerEndpoints) -> list[object]:
    """The keys it publishes, whatever they are good for.

    Raises:
        EndpointFailed: nothing that can be used.
    """
    told = await fetch_json(doors.keys)
    listed = told.get("keys") if isinstance(told, dict) else None
    return listed if isinstance(listed, list) else []


def usable_keys(listed: Iterable[object]) -> tuple[Key, ...]:
    """The keys that can be used, of those an issuer publishes."""
    found = (parse_key(one) for _, one in zip(range(MAX_KEYS), listed, strict=False))
    return tuple(key for key in found if key is not None)


async def fetch_json(address: str) -> object:
    """What is published at an address.

    Raises:
        EndpointFailed: nothing that can be used.
    """
    exchange = BoundedHttpClient(address, headers={}, most_bytes=MAX_BYTES)
    try:
        return await exchange.get(seconds=SECONDS)
    finally:
        await exchange.close()


def _doors_in(told: object, issuer: str) -> IssuerEndpoints:
    said = told if isinstance(told, dict) else {}
    if (name := said.get("issuer")) != issuer:
        shown = escape_hidden(str(name))[:MAX_NAME_LENGTH]
        raise EndpointFailed(f"it calls itself {shown}, which is another name than oidc_issuer")
    keys, authorize, token = (
        str(said.get(name, "")) for name in ("jwks_uri", "authorization_endpoint", "token_endpoint")
    )
    if not is_secure_url(keys):
        raise EndpointFailed("it does not say where its keys are, or not safely")
    ways = said.get("token_endpoint_auth_methods_supported")
    listed = ways if isinstance(ways, list) else ["client_secret_basic"]
    in_form = "client_secret_basic" not in listed and "client_secret_post" in listed
    return IssuerEndpoints(keys=keys, authorize=authorize, token=token, secret_in_form=in_form)
