"""What a JWT must be before anything in it is believed, and what it must say then.

Only signatures that need no shared secret count: with those, whoever can check a token could make
one. The header of a token is written by whoever sends it, so it chooses among what we allow, and
nothing else: neither the key nor the way to use it.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.algorithms import get_default_algorithms
from jwt.exceptions import PyJWTError

from waybook.endpoints.issued import Claims, check_times
from waybook.errors import Unauthenticated

#: Larger ones are nobody's.
MAX_BYTES: Final = 8_192
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
    matched = _TOKEN.fullmatch(text) if len(text) <= MAX_BYTES else None
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
