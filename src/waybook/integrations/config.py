"""Validated settings of the webhook, of the OpenID Connect issuer, and of trusted proxies."""

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from waybook.core.decision_context import Scope
from waybook.core.events import NotificationKind
from waybook.errors import Misconfigured
from waybook.notifications.delivery import ActionLinks, parse_secrets
from waybook.settings import LOOPBACK, Settings

_MAX_TEMPLATE_BYTES = 65_536
#: Time for which the links in a review message can be used.
_ACTION_LINK_LIFETIME = timedelta(days=7)
#: Prefix of `oidc_org` if a claim of the token names the org. An org's slug never has a colon.
_CLAIM = "claim:"
#: Scopes of a user who is created at the first sign-in.
_NEW_USER_SCOPES = frozenset({Scope.PLAN_READ, Scope.PLAN_WRITE, Scope.RUN_WRITE, Scope.REVIEW})


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    #: The URL often contains a secret, so it is not printed.
    url: str = field(repr=False)
    secrets: tuple[bytes, ...] = field(repr=False)
    format: str
    events: frozenset[str]
    templates_dir: Path | None

    @property
    def is_unencrypted(self) -> bool:
        where = urlsplit(self.url)
        return where.scheme == "http" and where.hostname not in LOOPBACK

    def custom_templates(self) -> dict[str, str]:
        if self.templates_dir is None:
            return {}
        try:
            if not self.templates_dir.is_dir():
                raise Misconfigured(f"webhook_format: there is no folder {self.templates_dir}")
            return {
                path.name: _read_template(path) for path in sorted(self.templates_dir.glob("*.txt"))
            }
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"webhook_format: {error}") from error


def webhook_from_settings(settings: Settings) -> WebhookSettings | None:
    if settings.webhook_url is None:
        return None
    secrets = parse_secrets(settings.webhook_secret or "")
    form, folder = settings.webhook_form
    if form == "standard" and not secrets:
        raise Misconfigured(
            "webhook_url needs a webhook_secret, with which messages are signed; make one with: "
            "echo whsec_$(openssl rand -base64 32)"
        )
    return WebhookSettings(
        url=settings.webhook_url,
        secrets=secrets,
        format=form,
        events=_events(settings.webhook_events),
        templates_dir=Path(folder).expanduser() if folder else None,
    )


def action_links_from_settings(
    settings: Settings, webhook: WebhookSettings | None
) -> ActionLinks | None:
    """Return the settings for links that decide a review, or None if messages have no links."""
    reviewer = settings.webhook_reviewer or (None if settings.requires_auth else settings.user)
    if webhook is None or not webhook.secrets or not reviewer:
        return None
    return ActionLinks(
        key=webhook.secrets[0],
        reviewer=reviewer,
        lifetime=_ACTION_LINK_LIFETIME,
        needs_account=settings.requires_auth,
    )


def _events(text: str) -> frozenset[str]:
    """Parse a list of event names. An empty list means all events."""
    known = {str(kind) for kind in NotificationKind if kind is not NotificationKind.TEST}
    named = set(text.replace(",", " ").split())
    if unknown := sorted(named - known):
        raise Misconfigured(
            f"webhook_events: there is no event {unknown[0]!r}; use some of: "
            f"{', '.join(sorted(known))}"
        )
    return frozenset(named or known)


def _read_template(path: Path) -> str:
    if not path.is_file():
        raise Misconfigured(f"webhook_format: {path.name} is not a file")
    if path.stat().st_size > _MAX_TEMPLATE_BYTES:
        raise Misconfigured(f"webhook_format: {path.name} is too large")
    return path.read_text("utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerSettings:
    issuer: str
    #: URL to which agents connect. It is the field `resource` of the metadata (RFC 9728).
    resource: str
    audience: str
    client_id: str | None
    client_secret: str | None = field(repr=False)
    #: Org of all users. If None, the claim `org_claim` of a token names the user's org.
    org: str | None
    org_claim: str
    user_claim: str
    scopes_claim: str
    #: Scopes of a user who is created at the first sign-in. None if unknown users are rejected.
    new_user_scopes: frozenset[Scope] | None


def issuer_from_settings(settings: Settings) -> IssuerSettings | None:
    if settings.oidc_issuer is None:
        return None
    _check_issuer(settings, settings.oidc_issuer)
    resource = f"{settings.base_url}/mcp"
    allowed = settings.oidc_new_users == "allow"
    org, _, org_claim = (settings.oidc_org or "").partition(_CLAIM)
    return IssuerSettings(
        issuer=settings.oidc_issuer,
        resource=resource,
        audience=settings.oidc_audience or resource,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        org=org or None,
        org_claim=org_claim,
        user_claim=settings.oidc_user_claim,
        scopes_claim=settings.oidc_scopes_claim,
        new_user_scopes=_NEW_USER_SCOPES if allowed else None,
    )


def is_secure_url(address: str) -> bool:
    """Return whether traffic to a URL is safe from tampering: HTTPS, or HTTP on loopback.

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


def _check_issuer(settings: Settings, issuer: str) -> None:
    if not is_secure_url(issuer) or urlsplit(issuer).query:
        raise Misconfigured(
            "oidc_issuer must be a URL that begins with https:// and has no query and no fragment; "
            "http:// is accepted only for this machine"
        )
    if settings.oidc_org in {None, "", _CLAIM}:
        raise Misconfigured(
            "oidc_issuer needs oidc_org: the org of every user who signs in there, or claim:NAME "
            "with the claim that names the user's org"
        )
    if settings.oidc_client_secret and not settings.oidc_client_id:
        raise Misconfigured("oidc_client_secret needs oidc_client_id; set oidc_client_id too")
    if settings.oidc_new_users not in {"allow", "deny"}:
        raise Misconfigured(
            f"oidc_new_users must be allow or deny, not {settings.oidc_new_users!r}"
        )


class IssuerEndpoints(NamedTuple):
    keys: str
    authorize: str
    token: str
    secret_in_form: bool

    @property
    def has_pages(self) -> bool:
        return is_secure_url(self.authorize) and is_secure_url(self.token)


class IssuerCheck(NamedTuple):
    #: Reason why the endpoints were not found.
    error: str | None = None
    #: Reason why the keys were not downloaded.
    keys_fault: str | None = None
    #: Number of keys that the issuer publishes, and number of those that this server can use.
    published: int = 0
    usable: int = 0
    algorithms: tuple[str, ...] = ()
    has_pages: bool = False


#: Networks of the trusted proxies.
Proxies: TypeAlias = tuple[IPv4Network | IPv6Network, ...]


def read_proxies(text: str) -> Proxies:
    """Parse a comma-separated list of proxy addresses or networks."""
    named = [word.strip() for word in text.split(",") if word.strip()]
    try:
        return tuple(ip_network(word) for word in named)
    except ValueError as error:
        raise Misconfigured(f"trusted_proxies: {error}") from None
