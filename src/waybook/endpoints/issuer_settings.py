"""Whose sign-in counts here, and what is made of it: the operator's settings, checked."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from waybook.errors import Misconfigured
from waybook.record.scopes import Scope
from waybook.settings import LOOPBACK, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    #: Exactly as the issuer calls itself: its tokens are compared with this.
    issuer: str
    #: Where agents connect; what the metadata of RFC 9728 call the resource.
    resource: str
    audience: str
    client_id: str | None
    client_secret: str | None = field(repr=False)
    #: One org for all, or else the claim that names it.
    org: str | None
    org_claim: str
    user_claim: str
    scopes_claim: str
    #: What somebody may do who was never seen here; none if they may not come in.
    new_user_scopes: frozenset[Scope] | None


def issuer_from_settings(settings: Settings) -> IssuerSettings | None:
    """The issuer that is configured; none if there is none.

    Raises:
        Misconfigured: the settings do not fit together.
    """
    if settings.oidc_issuer is None:
        return None
    _check(settings, settings.oidc_issuer)
    resource = f"{settings.base_url}/mcp"
    allowed = settings.oidc_new_users == "allow"
    return IssuerSettings(
        issuer=settings.oidc_issuer,
        resource=resource,
        audience=settings.oidc_audience or resource,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        org=settings.oidc_org,
        org_claim=settings.oidc_org_claim or "",
        user_claim=settings.oidc_user_claim,
        scopes_claim=settings.oidc_scopes_claim,
        new_user_scopes=_scopes(settings.oidc_new_user_scopes) if allowed else None,
    )


def is_secure_url(address: str) -> bool:
    """Whether nobody on the way can change what is said at an address.

    >>> is_secure_url("https://id.example.org/x"), is_secure_url("http://127.0.0.1:9000")
    (True, True)
    >>> is_secure_url("http://id.example.org"), is_secure_url("file:///etc/passwd"), is_secure_url("https://")
    (False, False, False)
    """
    try:
        where = urlsplit(address)
        named = bool(where.hostname) and where.port != 0
    except ValueError:
        return False
    if not named or not address.isascii() or not address.isprintable() or " " in address:
        return False
    if where.username or where.password or where.fragment:
        return False
    return where.scheme == "https" or (where.scheme == "http" and where.hostname in LOOPBACK)


def _check(settings: Settings, issuer: str) -> None:
    if not is_secure_url(issuer) or urlsplit(issuer).query:
        raise Misconfigured(
            "oidc_issuer must be an address that begins with https://, without a question or a "
            "fragment; http:// is for this machine alone"
        )
    if bool(settings.oidc_org) == bool(settings.oidc_org_claim):
        raise Misconfigured(
            "oidc_issuer needs either oidc_org, the org of everybody who signs in there, or "
            "oidc_org_claim, the claim that names it"
        )
    if settings.oidc_client_secret and not settings.oidc_client_id:
        raise Misconfigured("oidc_client_secret is set, but not whose it is: set oidc_client_id")
    if settings.oidc_new_users not in {"allow", "deny"}:
        raise Misconfigured(
            f"there is no oidc_new_users {settings.oidc_new_users!r}: use allow or deny"
        )


def _scopes(text: str) -> frozenset[Scope]:
    """The scopes that are named.

    Raises:
        Misconfigured: there is no such scope, or none is named.
    """
    named = text.replace(",", " ").split()
    unknown = sorted(set(named) - set(Scope))
    if unknown or not named:
        said = f"there is no scope {unknown[0]!r}" if unknown else "no scope is named"
        raise Misconfigured(f"oidc_new_user_scopes: {said}; there are {', '.join(Scope)}")
    return frozenset(map(Scope, named))
