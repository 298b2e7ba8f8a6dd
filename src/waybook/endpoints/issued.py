"""Who somebody is by the word of an issuer, and what they may do."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeAlias

from waybook.endpoints.issuer_settings import IssuerSettings
from waybook.errors import Unauthenticated
from waybook.record.moment import Json
from waybook.record.scopes import Scope

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
