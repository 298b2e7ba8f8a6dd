"""OpenID Connect issuer: discovery, cached signing keys, and verification of tokens.

Only asymmetric signatures are accepted, because a symmetric key would let this server make tokens.
"""

import asyncio
import logging
import re
import time
from base64 import b64encode, urlsafe_b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

from waybook.core.hidden_characters import escape_hidden
from waybook.errors import EndpointFailed, Unauthenticated, Unavailable
from waybook.integrations.config import (
    IssuerCheck,
    IssuerEndpoints,
    IssuerSettings,
    is_secure_url,
)
from waybook.integrations.http_client import BoundedHttpClient
from waybook.integrations.oidc_login import Claims, check_times

log = logging.getLogger(__name__)

MAX_TOKEN_BYTES: Final = 8_192
MAX_SUBJECT_LENGTH: Final = 255
KEYS: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
}
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
MIN_RSA_BITS: Final = 2_048

_ALGORITHMS: Final = {
    name: known for name, known in get_default_algorithms().items() if name in KEYS
}
_PART: Final = "[A-Za-z0-9_-]+"
_TOKEN: Final = re.compile(rf"(?P<header>{_PART})\.{_PART}\.{_PART}")


class Key(NamedTuple):
    """A public key, with the algorithms that it may be used with."""

    name: str | None
    algorithms: frozenset[str]
    public: Any


def parse_header(text: str) -> Claims:
    """Return the header of a well-formed JWT. Its signature and claims are not verified."""
    matched = _TOKEN.fullmatch(text) if len(text) <= MAX_TOKEN_BYTES else None
    if matched is None:
        raise Unauthenticated("it is too long or not a signed JWT")
    header = _object_in(_decoded(matched["header"]))
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in KEYS:
        raise Unauthenticated("its signature algorithm is not supported")
    if "crit" in header or "b64" in header:
        raise Unauthenticated("its header has a critical extension that is not supported")
    if str(header.get("typ", "jwt")).lower() not in TYPES:
        raise Unauthenticated("its type is neither JWT nor an access token")
    return header


def parse_key(jwk: object) -> Key | None:
    """Parse an issuer's key, or return None if the key cannot be used here."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    used = frozenset(name for name in KEYS if _goes_with(jwk, name))
    if not used:
        return None
    try:
        public = PyJWK(jwk, algorithm=min(used)).key
    except PyJWTError:
        return None
    if isinstance(public, RSAPublicKey) and public.key_size < MIN_RSA_BITS:
        return None
    name = jwk.get("kid")
    return Key(name if isinstance(name, str) else None, used, public)


def verify_signature(text: str, key: Key, header: Claims) -> Claims:
    """Verify a token's signature and return its claims; `header` comes from `parse_header`."""
    signed, _, signature = text.rpartition(".")
    algorithm = _ALGORITHMS[str(header["alg"])]
    try:
        good = algorithm.verify(signed.encode(), key.public, _decoded(signature))
    except (PyJWTError, ValueError, TypeError):
        good = False
    if not good:
        raise Unauthenticated("its signature is not valid")
    return _object_in(_decoded(signed.partition(".")[2]))


def validate_claims(claims: Claims, *, issuer: str, audience: str, now: datetime) -> None:
    """Check that claims name this issuer and audience, and that the token is valid now."""
    if claims.get("iss") != issuer:
        raise Unauthenticated("it was issued by another issuer")
    token_audience = claims.get("aud")
    if audience not in (token_audience if isinstance(token_audience, list) else [token_audience]):
        raise Unauthenticated("it was issued for another audience")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH:
        raise Unauthenticated("its subject is missing or too long")
    if not subject.isprintable():
        raise Unauthenticated("its subject has characters that cannot be printed")
    check_times(claims, now)


def _goes_with(jwk: Mapping[str, object], algorithm: str) -> bool:
    kind, curve = KEYS[algorithm]
    if jwk.get("kty") != kind or jwk.get("alg", algorithm) != algorithm:
        return False
    return curve is None or jwk.get("crv") == curve


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + -len(part) % 4 * "=")
    except ValueError:
        raise Unauthenticated("it is not valid base64") from None


def _object_in(text: bytes) -> Claims:
    try:
        claims = orjson.loads(text)
    except ValueError:
        claims = None
    if not isinstance(claims, dict):
        raise Unauthenticated("its header or claims are not a JSON object")
    return claims


MAX_DISCOVERY_BYTES: Final = 256 * 1024
SECONDS: Final = 5.0
_MAX_KEYS: Final = 100
MAX_NAME_LENGTH: Final = 200


async def discover_endpoints(issuer: str) -> IssuerEndpoints:
    """Return the issuer's endpoint URLs, discovered as in OpenID Connect or RFC 8414.

    Raises:
        EndpointFailed: there is no usable answer, or the answer names another issuer.
    """
    base = issuer.rstrip("/")
    try:
        return _endpoints_in(await _fetch_json(f"{base}/.well-known/openid-configuration"), issuer)
    except EndpointFailed as error:
        if error.details.get("status") != 404:  # noqa: PLR2004 - not found
            raise
    where = urlsplit(base)
    known = f"{where.scheme}://{where.netloc}/.well-known/oauth-authorization-server"
    return _endpoints_in(await _fetch_json(f"{known}{where.path}"), issuer)


async def fetch_keys(endpoints: IssuerEndpoints) -> list[object]:
    key_set = await _fetch_json(endpoints.keys)
    listed = key_set.get("keys") if isinstance(key_set, dict) else None
    return listed if isinstance(listed, list) else []


def usable_keys(listed: Iterable[object]) -> tuple[Key, ...]:
    keys = (parse_key(jwk) for _, jwk in zip(range(_MAX_KEYS), listed, strict=False))
    return tuple(key for key in keys if key is not None)


async def _fetch_json(address: str) -> object:
    exchange = BoundedHttpClient(address, headers={}, most_bytes=MAX_DISCOVERY_BYTES)
    try:
        return await exchange.request("GET", b"", {}, seconds=SECONDS)
    finally:
        await exchange.close()


def _endpoints_in(raw: object, issuer: str) -> IssuerEndpoints:
    metadata = raw if isinstance(raw, dict) else {}
    if (name := metadata.get("issuer")) != issuer:
        shown = escape_hidden(str(name))[:MAX_NAME_LENGTH]
        raise EndpointFailed(f"it names itself {shown}, which differs from oidc_issuer")
    keys, authorize, token = (
        str(metadata.get(name, ""))
        for name in ("jwks_uri", "authorization_endpoint", "token_endpoint")
    )
    if not is_secure_url(keys):
        raise EndpointFailed("its metadata has no jwks_uri that begins with https://")
    ways = metadata.get("token_endpoint_auth_methods_supported")
    listed = ways if isinstance(ways, list) else ["client_secret_basic"]
    in_form = "client_secret_basic" not in listed and "client_secret_post" in listed
    return IssuerEndpoints(keys=keys, authorize=authorize, token=token, secret_in_form=in_form)


async def check_issuer(issuer: str) -> IssuerCheck:
    """Check the issuer. An error is returned in the result, not raised."""
    try:
        async with asyncio.timeout(SECONDS):
            endpoints = await discover_endpoints(issuer)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(error=_describe_error(error))
    try:
        async with asyncio.timeout(SECONDS):
            listed = await fetch_keys(endpoints)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(keys_fault=_describe_error(error), has_pages=endpoints.has_pages)
    good = usable_keys(listed)
    algorithms = Counter(name for key in good for name in key.algorithms)
    return IssuerCheck(
        published=len(listed),
        usable=len(good),
        algorithms=tuple(sorted(algorithms)),
        has_pages=endpoints.has_pages,
    )


def _describe_error(error: EndpointFailed | TimeoutError) -> str:
    if isinstance(error, EndpointFailed):
        return error.message
    return f"it did not finish answering within {SECONDS:.3g} s"


#: If a token names an unknown key, the issuer's keys are fetched, at most once in this many
#: seconds.
MIN_REFRESH_SECONDS: Final = 30.0
#: Keys older than this are fetched again in the background, so that withdrawn keys disappear.
STALE_SECONDS: Final = 900.0


class Issuer:
    """Client for the configured OpenID Connect issuer."""

    def __init__(
        self, settings: IssuerSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._endpoints: IssuerEndpoints | None = None
        self._tried_at: float | None = None
        self._fetched_at: float | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def claims(self, text: str, *, audience: str, now: datetime) -> Claims:
        """Verify a token's signature, issuer, audience and validity, and return its claims.

        Raises:
            Unauthenticated: the token is not valid.
            Unavailable: its key is not cached, and the issuer is unreachable.
        """
        header = parse_header(text)
        claims = verify_signature(text, await self._key(header), header)
        validate_claims(claims, issuer=self.settings.issuer, audience=audience, now=now)
        return claims

    async def endpoints(self) -> IssuerEndpoints:
        """Return the issuer's endpoint URLs for browser sign-in."""
        if self._endpoints is None:
            await self._refresh()
        if self._endpoints is None or not self._endpoints.has_pages:
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        return self._endpoints

    async def redeem(self, fields: Mapping[str, str]) -> Claims:
        """Exchange an authorization code at the token endpoint and return the response."""
        endpoints = await self.endpoints()
        sent, headers = {**fields}, {"content-type": "application/x-www-form-urlencoded"}
        client, secret = self.settings.client_id or "", self.settings.client_secret
        if secret is None or endpoints.secret_in_form:
            sent |= {"client_id": client, **({"client_secret": secret} if secret else {})}
        else:
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        exchange = BoundedHttpClient(
            endpoints.token,
            headers={},
            secret=self.settings.client_secret,
            most_bytes=MAX_DISCOVERY_BYTES,
        )
        try:
            content = urlencode(sent).encode()
            response = await exchange.request("POST", content, headers, seconds=SECONDS)
        except EndpointFailed as error:
            if error.details.get("status") in {400, 401, 403}:
                raise Unauthenticated("the issuer refused the authorization code") from None
            raise Unavailable("the sign-in service does not answer right now; try again") from error
        finally:
            await exchange.close()
        if not isinstance(response, dict):
            raise Unauthenticated(
                "the identity provider's reply to the authorization code is not a JSON object"
            )
        return response

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _key(self, header: Claims) -> Key:
        key = self._known(header)
        if key is None:
            await self._refresh()
            key = self._known(header)
        elif self._fetched_at is None or self._clock() - self._fetched_at > STALE_SECONDS:
            self._start_refresh()
        if key is not None:
            return key
        if self._fetched_at is None or self._fetched_at != self._tried_at:
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        raise Unauthenticated("it is signed with a key that the issuer does not publish")

    def _known(self, header: Claims) -> Key | None:
        """Return the key that the header names or, without a name, the only suitable key."""
        fitting = [key for key in self._keys if header["alg"] in key.algorithms]
        if "kid" in header:
            fitting = [key for key in fitting if key.name == header["kid"]]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self) -> None:
        """Fetch keys and endpoints, unless that was done recently."""
        refreshing = self._start_refresh()
        if refreshing is not None:
            await asyncio.shield(refreshing)

    def _start_refresh(self) -> asyncio.Task[None] | None:
        if self._refreshing is not None and not self._refreshing.done():
            return self._refreshing
        if self._tried_at is not None and self._clock() - self._tried_at < MIN_REFRESH_SECONDS:
            return None
        self._tried_at = self._clock()
        self._refreshing = asyncio.create_task(self._fetch(self._tried_at))
        return self._refreshing

    async def _fetch(self, at: float) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                endpoints = await discover_endpoints(self.settings.issuer)
                listed = await fetch_keys(endpoints)
        except (EndpointFailed, TimeoutError) as error:
            log.warning("the issuer %s cannot be asked: %s", self.settings.issuer, error)
            return
        self._endpoints, self._keys, self._fetched_at = endpoints, usable_keys(listed), at
