"""Settings of Waybook: names, types, defaults, and derived values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

#: Listen addresses that mean all network interfaces.
_WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared
CALLS_PER_SECOND = 60
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    #: URL of a PostgreSQL database, version 15 or later. Without it, an embedded server in the data
    #: directory is used.
    database_url: str | None = field(default=None, repr=False)
    #: URL with which the database owner runs migrations. Needed if the server uses a different
    #: database user.
    owner_url: str | None = field(default=None, repr=False)
    #: Databases on which a starting process applies migrations: `embedded` for the embedded server
    #: only, `always` for a database URL too.
    migrate: str = "embedded"
    data_dir: Path = Path()
    #: Authentication mode. With `none`, callers need no credentials, and the server accepts
    #: connections only from this machine. With `required`, every caller needs credentials.
    auth: str = "none"
    #: API token. A command acts as the owner of the token or, without a token, as the local user.
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8750
    workers: int = 1
    #: Seconds for which a stopping server still serves requests. Meanwhile, /readyz reports that
    #: the server is not ready.
    drain_seconds: int = 0
    #: Whether `waybook mcp` serves the dashboard while no other process serves it: on or off.
    pages: str = "on"
    stall_seconds: int = 1800
    #: Seconds without a heartbeat after which another agent can claim a job.
    lease_seconds: int = 900
    #: Days for which each kind of data is kept. 0 keeps the data forever.
    keep_calls_days: int = 30
    keep_archived_days: int = 0
    #: Selection of the tools that are offered to clients: auto, research, runs or all.
    tools: str = "auto"
    user: str = "local"
    skills_dirs: str = ""
    pool_size: int = 10
    log_level: str = "WARNING"
    #: Endpoint with the wire format of OpenAI's embeddings API. Without it, search uses the
    #: built-in table of word vectors.
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_key: str | None = field(default=None, repr=False)
    #: Program that ranks vectors in a search: auto, portable (this process) or pgvector.
    search_vectors: str = "auto"
    #: Model endpoint for the tool `extract_data`. Without it, agents extract data themselves.
    model_url: str | None = None
    model: str | None = None
    model_key: str | None = field(default=None, repr=False)
    #: Public URL of this server for links. Needed if it differs from the listen address.
    public_url: str | None = None
    #: Additional values of the Host header that the server accepts, separated by commas.
    allowed_hosts: str = ""
    #: Addresses or networks of proxies that may report the client's address, separated by commas.
    trusted_proxies: str = ""
    #: Token for reading `/metrics` in server mode. Without this token, `/metrics` is disabled.
    metrics_token: str | None = field(default=None, repr=False)
    #: URL that receives a notification when a person must act. The secret signs the notifications.
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
    #: Kinds of notifications that are sent to the webhook, separated by commas. Empty for all
    #: kinds.
    webhook_events: str = ""
    #: Format of the webhook body: standard, slack or text. `slack:` or `text:` can be
    #: followed by a folder with the operator's own templates.
    webhook_format: str = "standard"
    #: Name recorded as the reviewer of a decision made by link, without sign-in.
    webhook_reviewer: str | None = None
    #: Maximum number of calls per second for each org. 0 for no limit.
    calls_per_second: int | None = None
    #: OpenID Connect issuer whose tokens are accepted. The URL must be exactly as in the `iss`
    #: claim of the tokens.
    oidc_issuer: str | None = None
    #: Audience that an access token must have. By default, the URL to which agents connect.
    oidc_audience: str | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    #: Org of all users of the issuer, or `claim:` and the name of the token's claim with the org.
    oidc_org: str | None = None
    #: Claim of the token that names the user in the audit. An email address must be verified.
    oidc_user_claim: str = "email"
    oidc_scopes_claim: str = "scope"
    #: Whether a user is created at first sign-in: allow or deny.
    oidc_new_users: str = "allow"

    @property
    def migrates_at_start(self) -> bool:
        return self.database_url is None or self.migrate == "always"

    @property
    def base_url(self) -> str:
        return self.public_url.rstrip("/") if self.public_url else self.listen_url

    @property
    def listen_url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def host_names(self) -> frozenset[str]:
        """Return the accepted values of the Host header, besides local host names."""
        named = {name.strip() for name in self.allowed_hosts.split(",")}
        if self.public_url or self.host not in _WILDCARD_HOSTS:
            named.add(host_header(self.base_url))
        return frozenset(name.lower() for name in named if name)

    @property
    def effective_calls_per_second(self) -> int:
        """Return the rate limit per org in calls per second. Local mode is unlimited by default."""
        if self.calls_per_second is not None:
            return self.calls_per_second
        return CALLS_PER_SECOND if self.requires_auth else 0

    @property
    def webhook_form(self) -> tuple[str, str]:
        """Return the format of the webhook body, and the folder of the operator's templates."""
        name, _, folder = self.webhook_format.partition(":")
        return name, folder

    @property
    def requires_auth(self) -> bool:
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
    settings: Settings
    sources: Mapping[str, str]
