"""What an issuer says of itself: where its doors are, and which keys it signs with.

What a JWT must be before anything in it is believed, and what it must say then.

Only signatures that need no shared secret count: with those, whoever can check a token could make
one. The header of a token is written by whoever sends it, so it chooses among what we allow, and
nothing else: neither the key nor the way to use it.

An issuer asked once, to tell whoever runs the server what it finds.
"""

import asyncio
import re
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

from waybook.core.hidden_characters import escape_hidden
from waybook.errors import EndpointFailed, Unauthenticated
from waybook.integrations.config import is_secure_url
from waybook.integrations.http_client import BoundedHttpClient
from waybook.integrations.oidc_login import Claims, check_times

#: Larger ones are nobody's.
MAX_TOKEN_BYTES: Final = 8_192
MAX_SUBJECT_LENGTH: Final = 255
#: Every algorithm we take, and the keys it goes with: their type, and their curve if they have one.
KEYS: Final[Mapping[str, tuple[str, str | None]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "EdDSA": ("OKP", "Ed25519"),
}
TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
MIN_RSA_BITS: Final = 2_048

ALGORITHMS: Final = {
    name: known for name, known in get_default_algorithms().items() if name in KEYS
}
_PART: Final = "[A-Za-z0-9_-]+"
_TOKEN: Final = re.compile(rf"(?P<header>{_PART})\.{_PART}\.{_PART}")


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, and the algorithms it may be used with."""

    name: str | None
    algorithms: frozenset[str]
    public: Any


def parse_header(text: str) -> Claims:
    """The header of a token that we would look at at all; nothing of it is believed.

    Raises:
        Unidentified: it is none.
    """
    matched = _TOKEN.fullmatch(text) if len(text) <= MAX_TOKEN_BYTES else None
    if matched is None:
        raise Unauthenticated("it is too large, or no signed token")
    header = _object_in(_decoded(matched["header"]))
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in KEYS:
        raise Unauthenticated("it is signed in a way that is not taken")
    if "crit" in header or "b64" in header:
        raise Unauthenticated("its header asks for what is not understood")
    if str(header.get("typ", "jwt")).lower() not in TYPES:
        raise Unauthenticated("it is a token of another type")
    return header


def parse_key(found: object) -> Key | None:
    """A key as an issuer publishes it, if it can check signatures of ours."""
    if not isinstance(found, dict) or found.get("use", "sig") != "sig" or "d" in found:
        return None
    used = frozenset(name for name in KEYS if _goes_with(found, name))
    if not used:
        return None
    try:
        public = PyJWK(found, algorithm=min(used)).key
    except PyJWTError:
        return None
    if isinstance(public, RSAPublicKey) and public.key_size < MIN_RSA_BITS:
        return None
    name = found.get("kid")
    return Key(name if isinstance(name, str) else None, used, public)


def verify_signature(text: str, key: Key, header: Claims) -> Claims:
    """What a token says, its signature being good; `header` is what `parse_header` found.

    Raises:
        Unidentified: it is not, or it says nothing.
    """
    signed, _, signature = text.rpartition(".")
    algorithm = ALGORITHMS[str(header["alg"])]
    try:
        good = algorithm.verify(signed.encode(), key.public, _decoded(signature))
    except (PyJWTError, ValueError, TypeError):
        good = False
    if not good:
        raise Unauthenticated("its signature is not good")
    return _object_in(_decoded(signed.partition(".")[2]))


def validate_claims(claims: Claims, *, issuer: str, audience: str, now: datetime) -> None:
    """Let through what this issuer says to this audience, at this time.

    Raises:
        Unidentified: it is somebody else's, or not for us, or not for now.
    """
    if claims.get("iss") != issuer:
        raise Unauthenticated("it is of another issuer")
    meant = claims.get("aud")
    if audience not in (meant if isinstance(meant, list) else [meant]):
        raise Unauthenticated("it is for another audience")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_LENGTH:
        raise Unauthenticated("it does not say whose it is")
    if not subject.isprintable():
        raise Unauthenticated("it does not say whose it is in letters")
    check_times(claims, now)


def _goes_with(found: Mapping[str, object], algorithm: str) -> bool:
    kind, curve = KEYS[algorithm]
    if found.get("kty") != kind or found.get("alg", algorithm) != algorithm:
        return False
    return curve is None or found.get("crv") == curve


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + -len(part) % 4 * "=")
    except ValueError:
        raise Unauthenticated("it is not spelled as such tokens are") from None


def _object_in(text: bytes) -> Claims:
    try:
        found = orjson.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unauthenticated("it says nothing")
    return found


MAX_DISCOVERY_BYTES: Final = 256 * 1024
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
    exchange = BoundedHttpClient(address, headers={}, most_bytes=MAX_DISCOVERY_BYTES)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerCheck:
    """What was found, as far as it was."""

    #: Why it does not answer as itself, or why its keys cannot be had.
    error: str | None = None
    keys_fault: str | None = None
    #: How many keys it publishes, and how many of these can be used with each algorithm.
    published: int = 0
    usable: int = 0
    algorithms: tuple[str, ...] = ()
    #: Whether it says where people sign in.
    has_pages: bool = False


async def check_issuer(issuer: str) -> IssuerCheck:
    """Ask it what a server asks, within the same bounds; what goes wrong is a finding."""
    try:
        async with asyncio.timeout(SECONDS):
            doors = await discover_endpoints(issuer)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(error=_said(error))
    return await _examine_keys(doors)


async def _examine_keys(doors: IssuerEndpoints) -> IssuerCheck:
    has_pages = all(map(is_secure_url, (doors.authorize, doors.token)))
    try:
        async with asyncio.timeout(SECONDS):
            listed = await fetch_keys(doors)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(keys_fault=_said(error), has_pages=has_pages)
    good = usable_keys(listed)
    algorithms = Counter(name for key in good for name in key.algorithms)
    return IssuerCheck(
        published=len(listed),
        usable=len(good),
        algorithms=tuple(sorted(algorithms)),
        has_pages=has_pages,
    )


def _said(error: EndpointFailed | TimeoutError) -> str:
    if isinstance(error, EndpointFailed):
        return error.message
    return f"it gave no whole answer within {SECONDS:.3g} s"
