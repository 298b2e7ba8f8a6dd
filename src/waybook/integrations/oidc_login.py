"""Who somebody is by the word of an issuer, and what they may do.

Signing in at an issuer with a browser: the code flow of OpenID Connect with PKCE, without state.

What a flow has to remember is kept by the browser itself, in a cookie of its own: whoever comes
back with a code must be the one who was sent.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlencode

import orjson

from waybook.core.decision_context import Scope
from waybook.errors import Unauthenticated
from waybook.integrations.config import IssuerSettings
from waybook.json_values import Json

Claims: TypeAlias = Mapping[str, Json]

#: How far the clocks of two machines may be apart, in seconds.
LEEWAY: Final = 60.0
#: What is longer is no name of anybody.
MAX_NAME_LENGTH: Final = 200


class AuthorizationEndpoint(Protocol):
    """Where an issuer has people sign in."""

    @property
    def authorize(self) -> str:
        """Where a browser is sent."""


class IssuerClient(Protocol):
    """What an issuer does for us."""

    @property
    def settings(self) -> IssuerSettings:
        """Which issuer, and what is made of its words."""

    async def claims(self, text: str, *, audience: str, now: datetime) -> Claims:
        """What a token says, if it is the issuer's, for this audience and for now."""

    async def endpoints(self) -> AuthorizationEndpoint:
        """Where people sign in."""

    async def redeem(self, fields: Mapping[str, str], /) -> Claims:
        """What the issuer hands out for the code somebody came back with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedIdentity:
    """Somebody the issuer knows."""

    org: str
    subject: str
    #: What people call them.
    name: str
    email: str | None
    #: The program that acts for them.
    client: str
    #: What the token lets it do; nothing else that it says counts.
    scopes: frozenset[Scope]


def identity_from_claims(claims: Claims, settings: IssuerSettings) -> IssuedIdentity:
    """Whom the issuer speaks of.

    Raises:
        Unidentified: it does not say of which org.
    """
    org = settings.org or _text(claims, settings.org_claim)
    if org is None:
        raise Unauthenticated("it does not say of which org")
    subject = str(claims["sub"])
    email = _text(claims, "email") if claims.get("email_verified") is True else None
    named = email if settings.user_claim == "email" else _text(claims, settings.user_claim)
    return IssuedIdentity(
        org=org,
        subject=subject,
        name=named or subject,
        email=email,
        client=_text(claims, "client_id") or _text(claims, "azp") or "unknown",
        scopes=parse_scopes(claims.get(settings.scopes_claim)),
    )


def parse_scopes(told: Json) -> frozenset[Scope]:
    """The scopes of ours in a claim, which is a text or a list.

    >>> sorted(parse_scopes("openid plan:read")), parse_scopes(["admin"]), parse_scopes(7)
    ([<Scope.PLAN_READ: 'plan:read'>], frozenset({<Scope.ADMIN: 'admin'>}), frozenset())
    """
    listed = told.split() if isinstance(told, str) else told if isinstance(told, list) else []
    return frozenset(scope for scope in Scope if scope in listed)


def check_times(claims: Claims, now: datetime) -> None:
    """Let through what is said for now.

    Raises:
        Unidentified: it is for later, or for the past, or does not say for how long.
    """
    at = now.timestamp()
    ends, begins, made = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None or at >= ends + LEEWAY:
        raise Unauthenticated("it has expired, or does not say when it will")
    if any(time is not None and time > at + LEEWAY for time in (begins, made)):
        raise Unauthenticated("it is not valid yet")


def _time(claims: Claims, name: str) -> float | None:
    at = claims.get(name)
    if at is None:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise Unauthenticated(f"its {name} is no time")
    return float(at)


def _text(claims: Claims, name: str) -> str | None:
    found = claims.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= MAX_NAME_LENGTH:
        return None
    return found if found.isprintable() and found.strip() == found else None


STATE_LENGTH: Final = 32
#: What we ask of the issuer: who somebody is.
REQUESTED_SCOPES: Final = "openid profile email"
MAX_CODE_LENGTH: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """One attempt to sign in."""

    state: str
    nonce: str
    verifier: str
    #: Where somebody wants to go then.
    return_to: str

    def to_cookie(self) -> str:
        """What the browser keeps."""
        return urlsafe_b64encode(orjson.dumps(asdict(self))).decode()


def new_attempt(then: str) -> SignInAttempt:
    """An attempt that nobody can guess."""
    state, nonce, verifier = (secrets.token_urlsafe(STATE_LENGTH) for _ in range(3))
    return SignInAttempt(state=state, nonce=nonce, verifier=verifier, return_to=then)


def attempt_from_cookie(kept: str) -> SignInAttempt | None:
    """The attempt a browser kept, or nothing.

    >>> flow = new_attempt("/inbox")
    >>> (
    ...     attempt_from_cookie(flow.to_cookie()) == flow,
    ...     attempt_from_cookie("e30="),
    ...     attempt_from_cookie("?"),
    ... )
    (True, None, None)
    """
    try:
        found = orjson.loads(urlsafe_b64decode(kept.encode()))
        flow = SignInAttempt(**found)
    except (ValueError, TypeError):
        return None
    return flow if all(isinstance(value, str) for value in asdict(flow).values()) else None


async def authorization_url(issuer: IssuerClient, flow: SignInAttempt, back: str) -> str:
    """Where to send the browser; it comes back to the address `back`.

    Raises:
        Unavailable: the issuer cannot be asked where that is.
    """
    authorize = (await issuer.endpoints()).authorize
    challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code",
        "client_id": issuer.settings.client_id or "",
        "redirect_uri": back,
        "scope": REQUESTED_SCOPES,
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{authorize}{'&' if '?' in authorize else '?'}{urlencode(asked)}"


async def exchange_code(
    issuer: IssuerClient, flow: SignInAttempt, returned: dict[str, str], *, back: str, now: datetime
) -> Claims:
    """Who came back, by what they brought with them.

    Raises:
        Unidentified: it is not good.
        Unavailable: the issuer cannot be asked.
    """
    if not secrets.compare_digest(returned.get("state", "").encode(), flow.state.encode()):
        raise Unauthenticated("somebody else was sent to sign in")
    if returned.get("iss", issuer.settings.issuer) != issuer.settings.issuer:
        raise Unauthenticated("they come from another issuer")
    code = returned.get("code", "")
    if not 0 < len(code) <= MAX_CODE_LENGTH:
        raise Unauthenticated("they come back without a code")
    handed = await issuer.redeem(
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": flow.verifier,
        }
    )
    return await _identity(issuer, flow, handed, now)


async def _identity(
    issuer: IssuerClient, flow: SignInAttempt, handed: Claims, now: datetime
) -> Claims:
    """What the ID token says, if it was made for us and for this attempt."""
    client, text = issuer.settings.client_id or "", handed.get("id_token")
    if not isinstance(text, str):
        raise Unauthenticated("the issuer does not say who it is")
    claims = await issuer.claims(text, audience=client, now=now)
    nonce, meant = claims.get("nonce"), claims.get("aud")
    if not isinstance(nonce, str) or not secrets.compare_digest(
        nonce.encode(), flow.nonce.encode()
    ):
        raise Unauthenticated("it was made for another attempt")
    several = isinstance(meant, list) and len(meant) > 1
    if claims.get("azp", None if several else client) != client:
        raise Unauthenticated("it was made for another program")
    return claims
