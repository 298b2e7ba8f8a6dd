"""Settings of Waybook: names, types, defaults, and derived values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

#: Listen addresses that mean all network interfaces and are therefore not host names.
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not listened on
#: Default rate limit in server mode, in calls per second for each org.
CALLS_PER_SECOND = 60
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    #: URL of a PostgreSQL database, version 15 or later. If it is not set, an embedded server in
    #: the data directory is used.
    database_url: str | None = field(default=None, repr=False)
    #: URL with which the owner of the database connects to run migrations. Needed if the server
    #: uses a different database user.
    owner_url: str | None = field(default=None, repr=False)
    #: URL of a standby of the database, from which the pages of the dashboard are read.
    replica_url: str | None = field(default=None, repr=False)
    #: Maximum time in milliseconds for which a page waits until the replica has caught up.
    replica_lag_ms: int = 200
    #: When a starting process applies migrations: `embedded` for the embedded server only, `always`
    #: for a database URL too.
    migrate: str = "embedded"
    data_dir: Path = Path()
    #: Authentication mode. With `none`, callers need no credentials, and the server accepts
    #: connections only from this machine; with `required`, every caller needs credentials.
    auth: str = "none"
    #: API token. A command acts as the owner of the token, or as the local user if no token is set.
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8750
    #: Number of server processes, which share the listening socket. More than one process can use
    #: several cores.
    workers: int = 1
    #: Time in seconds for which the server keeps an idle HTTP connection open for the next request.
    keep_alive_seconds: int = 75
    #: Time in seconds for which a stopping server still serves requests. Meanwhile it reports on
    #: /readyz that it is not ready, so that a load balancer sends new requests to other servers.
    drain_seconds: int = 0
    #: Whether `waybook mcp` serves the dashboard while no other process serves it: on or off.
    pages: str = "on"
    stall_seconds: int = 1800
    #: Time in seconds after which a claimed job without a heartbeat can be claimed by another
    #: agent.
    lease_seconds: int = 900
    #: Number of days for which data is kept: the call log, the stored answers for repeated calls,
    #: signed-out browser sessions, and closed plans and runs. 0 keeps the data forever.
    keep_calls_days: int = 30
    keep_answers_days: int = 30
    keep_sessions_days: int = 30
    keep_archived_days: int = 0
    #: Time in seconds between two sweeps that look for stalled steps; 0 disables the sweep.
    sweep_seconds: int = 30
    #: Time in hours after which an undecided review is overdue; 0 for no deadline.
    review_reminder_hours: int = 24
    #: Profile that selects the tools offered to clients: plan, research, runs or all.
    tools: str = "plan"
    #: Name of the user in local mode.
    user: str = "local"
    #: Folders that contain skills, separated like the folders in the PATH variable.
    skills_dirs: str = ""
    pool_size: int = 10
    #: Time in seconds for which the commands `serve` and `mcp` wait at startup for a database that
    #: is still starting.
    database_wait_seconds: int = 60
    log_level: str = "WARNING"
    #: Source of embeddings for search: the vocabulary table that is part of Waybook, or an external
    #: endpoint.
    embedder: str = "shipped"
    #: URL of an endpoint with the wire format of OpenAI's embeddings API, the name of the model at
    #: this endpoint, and the API key.
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_key: str | None = field(default=None, repr=False)
    #: Backend that ranks vectors in a search (auto, portable or pgvector), and maximum memory in
    #: megabytes that vectors may take in this process.
    search_vectors: str = "auto"
    search_memory_mb: int = 256
    #: URL of the model endpoint that the tool `extract_data` uses. If it is not set, agents extract
    #: data themselves.
    model_url: str | None = None
    #: Wire format of the model endpoint (openai or anthropic), name of the model, and API key.
    model_api: str = "openai"
    model: str | None = None
    model_key: str | None = field(default=None, repr=False)
    #: Maximum total time in seconds of one data extraction.
    model_seconds: int = 55
    #: Public URL of this server, with which links begin; needed if it differs from the listen
    #: address.
    public_url: str | None = None
    #: Additional values of the Host header that the server accepts, separated by commas.
    allowed_hosts: str = ""
    #: Addresses or networks of proxies that are trusted to report the address of the client,
    #: separated by commas.
    trusted_proxies: str = ""
    #: Token that is required for reading /metrics in server mode; if it is not set, /metrics is
    #: disabled.
    metrics_token: str | None = field(default=None, repr=False)
    #: URL of the webhook that is notified when a person's attention is needed, and the secret with
    #: which the notifications are signed.
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
    #: Kinds of notifications that are sent to the webhook, separated by commas; if the list is
    #: empty, all kinds.
    webhook_events: str = ""
    #: Format of the webhook body: standard, slack or text.
    webhook_format: str = "standard"
    #: Folder with webhook templates, which replace the built-in templates.
    webhook_templates_dir: str | None = None
    #: User in whose name reviews are decided by the links in review messages, without sign-in. If
    #: it is not set, only messages in local mode have such links.
    webhook_reviewer: str | None = None
    #: Number of days for which the links in a review message can be used; 0 for no links.
    action_link_days: int = 7
    #: Maximum number of calls per second for each org (0 for no limit), and number of calls that an
    #: org may make in a burst.
    calls_per_second: int | None = None
    burst: int = 120
    #: URL of the OpenID Connect issuer whose tokens are accepted, exactly as in the `iss` claim of
    #: the tokens.
    oidc_issuer: str | None = None
    #: Audience that an access token from the issuer must have; by default, this is the URL to which
    #: agents connect.
    oidc_audience: str | None = None
    #: Client id of the dashboard at the issuer, for sign-in with a browser.
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    #: Org to which all users of the OpenID Connect issuer belong or, if their orgs differ, the
    #: claim that contains a user's org.
    oidc_org: str | None = None
    oidc_org_claim: str | None = None
    #: Claim whose value becomes the user's name in the audit; an email address is used only if it
    #: is verified.
    oidc_user_claim: str = "email"
    #: Claim that contains the scopes of an access token.
    oidc_scopes_claim: str = "scope"
    #: Whether a user is created at first sign-in: allow or deny.
    oidc_new_users: str = "allow"
    #: Maximum scopes of a user who was created at first sign-in.
    oidc_new_user_scopes: str = "plan:read plan:write run:write review"

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
        """Accepted values of the Host header, besides local host names."""
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
