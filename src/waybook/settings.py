"""Settings of Waybook: names, types, defaults, and derived values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

#: Wildcard listen addresses, which are not host names.
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not listened on
#: Default rate limit in server mode, in calls per second for each org.
CALLS_PER_SECOND = 60
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    #: URL of any PostgreSQL ≥ 15; without one, an embedded server in the data directory is used.
    database_url: str | None = None
    #: Database URL of the owner for migrations, if different database users serve and migrate.
    owner_url: str | None = None
    data_dir: Path = Path()
    #: Authentication mode: `none` requires no credentials and serves this machine only; `required`
    #: requires credentials of every caller.
    auth: str = "none"
    #: Token that a command uses instead of acting as the local user.
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8750
    stall_seconds: int = 1800
    #: Time a claimed job stays with its holder without a heartbeat, in seconds.
    lease_seconds: int = 900
    #: Retention in days of the call log, of answers to repeated calls, of signed-out browser
    #: sessions, and of closed plans and runs; 0 keeps them forever.
    keep_calls_days: int = 30
    keep_answers_days: int = 30
    keep_sessions_days: int = 30
    keep_archived_days: int = 0
    #: Interval of the stall sweep, in seconds; 0 disables it.
    sweep_seconds: int = 30
    #: The tool profile: plan, research, runs or all.
    tools: str = "plan"
    #: User name in local mode.
    user: str = "local"
    #: Skill folders, separated as in the PATH variable.
    skills_dirs: str = ""
    pool_size: int = 10
    #: Time that `serve` and `mcp` wait at startup for a database that is still starting.
    database_wait_seconds: int = 60
    log_level: str = "WARNING"
    #: Source of embeddings for search: the table shipped with Waybook, or an endpoint.
    embedder: str = "shipped"
    #: Endpoint with the wire format of OpenAI's embeddings API, the model of the endpoint, and its
    #: key.
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_key: str | None = field(default=None, repr=False)
    #: Backend that ranks vectors (auto, portable or pgvector), and its memory limit in this
    #: process.
    search_vectors: str = "auto"
    search_memory_mb: int = 256
    #: Endpoint of the model for `extract_data`; without one, agents extract data themselves.
    model_url: str | None = None
    #: Wire format of the model endpoint (openai or anthropic), the model to use, and the key.
    model_api: str = "openai"
    model: str | None = None
    model_key: str | None = field(default=None, repr=False)
    #: Total time limit of one extraction, in seconds.
    model_seconds: int = 55
    #: Public URL of this server, if it differs from its listen address; links begin with it.
    public_url: str | None = None
    #: Additional Host header values that are accepted, separated by commas.
    allowed_hosts: str = ""
    #: Proxies trusted to report the client's address: addresses or networks, separated by commas.
    trusted_proxies: str = ""
    #: Token for /metrics in server mode; without it, /metrics is disabled.
    metrics_token: str | None = field(default=None, repr=False)
    #: Webhook for notifications that need a person's attention: its URL, and the secret that signs
    #: the notifications.
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
    #: Events that the webhook sends, separated by commas; all events if none is listed.
    webhook_events: str = ""
    #: Format of the webhook body: standard, slack or text.
    webhook_format: str = "standard"
    #: Folder of webhook templates that override the built-in ones.
    webhook_templates_dir: str | None = None
    #: Rate limit per org in calls per second (0 for no limit), and the burst size.
    calls_per_second: int | None = None
    burst: int = 120
    #: OpenID Connect issuer whose tokens are accepted, exactly as in its `iss` claim.
    oidc_issuer: str | None = None
    #: Required audience of the issuer's access tokens; by default, the URL that agents connect to.
    oidc_audience: str | None = None
    #: Client id of the dashboard at the issuer, for browser sign-in.
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    #: Org of all users of the OpenID Connect issuer, or the claim that contains the org of a user.
    oidc_org: str | None = None
    oidc_org_claim: str | None = None
    #: Claim used as the user's name in the audit; an email is used only if it is verified.
    oidc_user_claim: str = "email"
    #: Claim that contains the scopes of an access token.
    oidc_scopes_claim: str = "scope"
    #: Whether a user is created at first sign-in: allow or deny.
    oidc_new_users: str = "allow"
    #: Maximum scopes of a user who was created at first sign-in.
    oidc_new_user_scopes: str = "plan:read plan:write run:write review"

    @property
    def base_url(self) -> str:
        """Base URL of links to this server."""
        return self.public_url.rstrip("/") if self.public_url else self.listen_url

    @property
    def listen_url(self) -> str:
        """URL of the address on which the server listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def host_names(self) -> frozenset[str]:
        """Accepted values of the Host header, in addition to local host names."""
        named = {name.strip() for name in self.allowed_hosts.split(",")}
        if self.public_url or self.host not in WILDCARD_HOSTS:
            named.add(host_header(self.base_url))
        return frozenset(name.lower() for name in named if name)

    @property
    def effective_calls_per_second(self) -> int:
        """Rate limit per org in calls per second; by default unlimited in local mode."""
        if self.calls_per_second is not None:
            return self.calls_per_second
        return CALLS_PER_SECOND if self.requires_auth else 0

    @property
    def requires_auth(self) -> bool:
        """True in server mode: every caller needs a credential."""
        return self.auth == "required"


def host_header(url: str) -> str:
    """Return the Host header that an HTTP client sends for this URL.

    >>> host_header("https://plans.example:443/x"), host_header("http://[::1]:8750")
    ('plans.example', '[::1]:8750')
    """
    where = urlsplit(url)
    name = where.hostname or ""
    name = f"[{name}]" if ":" in name else name
    usual = {"http": 80, "https": 443}.get(where.scheme)
    return name if where.port in {None, usual} else f"{name}:{where.port}"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Effective settings, with the source of each value."""

    settings: Settings
    sources: Mapping[str, str]
