"""OpenID Connect sign-in with the authorization code flow and PKCE.

The state of a sign-in is in a cookie, so only the browser that started the sign-in can complete it.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import urlencode

import orjson

from waybook.core.decision_context import Scope
from waybook.errors import Unauthenticated
from waybook.integrations.config import IssuerEndpoints, IssuerSettings
from waybook.json_values import Json

Claims: TypeAlias = Mapping[str, Json]

#: Tolerated difference in seconds between this server's clock and the issuer's clock.
LEEWAY: Final = 60.0
MAX_NAME_LENGTH: Final = 200


class IssuerClient(Protocol):
    """The issuer client, whose module is imported only if an issuer is configured."""

    @property
    def settings(self) -> IssuerSettings: ...

    async def claims(self, text: str, *, audience: str, now: datetime) -> Claims: ...

    async def endpoints(self) -> IssuerEndpoints: ...

    async def redeem(self, fields: Mapping[str, str], /) -> Claims: ...


class IssuedIdentity(NamedTuple):
    org: str
    subject: str
    name: str
    email: str | None
    client: str
    scopes: frozenset[Scope]


def identity_from_claims(claims: Claims, settings: IssuerSettings) -> IssuedIdentity:
    org = settings.org or _text(claims, settings.org_claim)
    if org is None:
        raise Unauthenticated("its claims name no org")
    subject = str(claims["sub"])
    email = _text(claims, "email") if claims.get("email_verified") is True else None
    named = email if settings.user_claim == "email" else _text(claims, settings.user_claim)
    return IssuedIdentity(
        org=org,
        subject=subject,
        name=named or subject,
        email=email,
        client=_text(claims, "client_id") or _text(claims, "azp") or "unknown",
        scopes=_parse_scopes(claims.get(settings.scopes_claim)),
    )


def _parse_scopes(claim: Json) -> frozenset[Scope]:
    """Return the scopes in a claim, which is a text or a list. Unknown scopes are ignored.

    >>> sorted(_parse_scopes("openid plan:read")), _parse_scopes(["admin"]), _parse_scopes(7)
    ([<Scope.PLAN_READ: 'plan:read'>], frozenset({<Scope.ADMIN: 'admin'>}), frozenset())
    """
    listed = claim.split() if isinstance(claim, str) else claim if isinstance(claim, list) else []
    return frozenset(scope for scope in Scope if scope in listed)


def check_times(claims: Claims, now: datetime) -> None:
    at = now.timestamp()
    ends, begins, made = (_time(claims, name) for name in ("exp", "nbf", "iat"))
    if ends is None or at >= ends + LEEWAY:
        raise Unauthenticated("it has expired or has no expiry")
    if any(time is not None and time > at + LEEWAY for time in (begins, made)):
        raise Unauthenticated("it is not valid yet")


def _time(claims: Claims, name: str) -> float | None:
    at = claims.get(name)
    if at is None:
        return None
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise Unauthenticated(f"its claim {name} is not a time")
    return float(at)


def _text(claims: Claims, name: str) -> str | None:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_LENGTH:
        return None
    return value if value.isprintable() and value.strip() == value else None


STATE_LENGTH: Final = 32
_REQUESTED_SCOPES: Final = "openid profile email"
_MAX_CODE_LENGTH: Final = 4_096


class SignInAttempt(NamedTuple):
    state: str
    nonce: str
    verifier: str
    return_to: str

    def to_cookie(self) -> str:
        return urlsafe_b64encode(orjson.dumps(self._asdict())).decode()


def new_attempt(then: str) -> SignInAttempt:
    state, nonce, verifier = (secrets.token_urlsafe(STATE_LENGTH) for _ in range(3))
    return SignInAttempt(state=state, nonce=nonce, verifier=verifier, return_to=then)


def attempt_from_cookie(cookie: str) -> SignInAttempt | None:
    """Return the sign-in that a cookie has stored, or None if the cookie is not valid.

    >>> flow = new_attempt("/inbox")
    >>> attempt_from_cookie(flow.to_cookie()) == flow, attempt_from_cookie("?")
    (True, None)
    """
    try:
        fields = orjson.loads(urlsafe_b64decode(cookie.encode()))
        flow = SignInAttempt(**fields)
    except (ValueError, TypeError):
        return None
    return flow if all(isinstance(value, str) for value in flow) else None


async def authorization_url(issuer: IssuerClient, flow: SignInAttempt, back: str) -> str:
    """Return the issuer's URL for sign-in. The issuer then redirects the browser to `back`."""
    authorize = (await issuer.endpoints()).authorize
    challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).decode().rstrip("=")
    query = {
        "response_type": "code",
        "client_id": issuer.settings.client_id or "",
        "redirect_uri": back,
        "scope": _REQUESTED_SCOPES,
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{authorize}{'&' if '?' in authorize else '?'}{urlencode(query)}"


async def exchange_code(
    issuer: IssuerClient, flow: SignInAttempt, returned: dict[str, str], *, back: str, now: datetime
) -> Claims:
    """Exchange the authorization code for the issuer's claims about the user."""
    if not secrets.compare_digest(returned.get("state", "").encode(), flow.state.encode()):
        raise Unauthenticated("the sign-in was started by another browser")
    if returned.get("iss", issuer.settings.issuer) != issuer.settings.issuer:
        raise Unauthenticated("the browser returned from another issuer")
    code = returned.get("code", "")
    if not 0 < len(code) <= _MAX_CODE_LENGTH:
        raise Unauthenticated("the browser returned without an authorization code")
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
    client, text = issuer.settings.client_id or "", handed.get("id_token")
    if not isinstance(text, str):
        raise Unauthenticated("the issuer sent no ID token")
    claims = await issuer.claims(text, audience=client, now=now)
    nonce, token_audience = claims.get("nonce"), claims.get("aud")
    if not isinstance(nonce, str) or not secrets.compare_digest(
        nonce.encode(), flow.nonce.encode()
    ):
        raise Unauthenticated("the ID token was issued for another sign-in")
    several = isinstance(token_audience, list) and len(token_audience) > 1
    if claims.get("azp", None if several else client) != client:
        raise Unauthenticated("the ID token was issued for another client")
    return claims
