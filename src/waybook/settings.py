"""Settings: their names, types and defaults, and what follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

#: Addresses to listen on that are nobody's name.
WILDCARD_HOSTS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not listened on
#: How many calls a second an org may make in server mode, unless it is said.
CALLS_PER_SECOND = 60
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    #: Any PostgreSQL ≥ 15; without one, an embedded server in the data directory is used.
    database_url: str | None = None
    #: The owner's URL for migrations, if serving and migrating are done by different users.
    owner_url: str | None = None
    data_dir: Path = Path()
    #: Who may come in: none asks nobody, and serves this machine only; required asks everybody.
    auth: str = "none"
    #: The token a command acts with, in place of the one user of local mode.
    token: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8750
    stall_seconds: int = 1800
    #: How long a claimed job is its holder's without a sign of life.
    lease_seconds: int = 900
    #: How many days calls are logged for, answers can be repeated for, browsers are known that have
    #: signed out, and plans and runs that are over are kept; 0 is for ever.
    keep_calls_days: int = 30
    keep_answers_days: int = 30
    keep_sessions_days: int = 30
    keep_archived_days: int = 0
    #: How often the stall sweep looks, in seconds; 0 switches it off.
    sweep_seconds: int = 30
    #: The tool profile: plan, research, runs or all.
    tools: str = "plan"
    #: Who acts in local mode.
    user: str = "local"
    #: Folders of skills, separated like a PATH.
    skills_dirs: str = ""
    pool_size: int = 10
    #: How long `serve` and `mcp` wait at start-up for a database that is still starting.
    database_wait_seconds: int = 60
    log_level: str = "WARNING"
    #: Who makes vectors for search: the table that comes with us, or an endpoint.
    embedder: str = "shipped"
    #: An endpoint that speaks the wire format of OpenAI's embeddings, its model, and its key.
    embeddings_url: str | None = None
    embeddings_model: str | None = None
    embeddings_key: str | None = field(default=None, repr=False)
    #: Where vectors are ranked: auto, portable or pgvector; and the memory they may take here.
    search_vectors: str = "auto"
    search_memory_mb: int = 256
    #: The endpoint of a model for `extract_data`; without one, agents extract by themselves.
    model_url: str | None = None
    #: What is spoken there (openai or anthropic), the model to ask for, and the key to it.
    model_api: str = "openai"
    model: str | None = None
    model_key: str | None = field(default=None, repr=False)
    #: How long one extraction may take altogether.
    model_seconds: int = 55
    #: Where people reach this server, if not at its own address; links begin with it.
    public_url: str | None = None
    #: More names this server answers to, as clients write them, separated by commas.
    allowed_hosts: str = ""
    #: Proxies that are believed to say for whom they ask: addresses or networks, by commas.
    trusted_proxies: str = ""
    #: What opens /metrics where everybody is asked who they are; without it, it is shut.
    metrics_token: str | None = field(default=None, repr=False)
    #: Whom to tell when a person is needed: an address, and by what it knows us.
    webhook_url: str | None = field(default=None, repr=False)
    webhook_secret: str | None = field(default=None, repr=False)
    #: The events to tell of, separated by commas; all of them, if none is named.
    webhook_events: str = ""
    #: What the receiver reads: standard, slack or text.
    webhook_format: str = "standard"
    #: A folder of texts in place of ours.
    webhook_templates_dir: str | None = None
    #: How many calls a second an org may make, 0 for as many as it likes; and how many at once.
    calls_per_second: int | None = None
    burst: int = 120
    #: Whose sign-in counts here: an issuer of OpenID Connect, exactly as it calls itself.
    oidc_issuer: str | None = None
    #: Whom its access tokens must be for; if not said, the address agents connect to.
    oidc_audience: str | None = None
    #: As what the pages are known to the issuer, so that people can sign in there.
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = field(default=None, repr=False)
    #: The org of everybody who comes from there, or the claim that names it.
    oidc_org: str | None = None
    oidc_org_claim: str | None = None
    #: The claim by which the audit calls people; an email counts only if it is verified.
    oidc_user_claim: str = "email"
    #: The claim that says what an access token lets one do.
    oidc_scopes_claim: str = "scope"
    #: Whether somebody who was never seen here becomes a user: allow or deny.
    oidc_new_users: str = "allow"
    #: What such a user may do at most.
    oidc_new_user_scopes: str = "plan:read plan:write run:write review"

    @property
    def base_url(self) -> str:
        """Where people look."""
        return self.public_url.rstrip("/") if self.public_url else self.listen_url

    @property
    def listen_url(self) -> str:
        """Where we listen."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def host_names(self) -> frozenset[str]:
        """The names we answer to beside those of this machine, as clients write them."""
        named = {name.strip() for name in self.allowed_hosts.split(",")}
        if self.public_url or self.host not in WILDCARD_HOSTS:
            named.add(host_header(self.base_url))
        return frozenset(name.lower() for name in named if name)

    @property
    def effective_calls_per_second(self) -> int:
        """How many calls a second an org may make; in local mode nobody is there to be spared."""
        if self.calls_per_second is not None:
            return self.calls_per_second
        return CALLS_PER_SECOND if self.requires_auth else 0

    @property
    def requires_auth(self) -> bool:
        """Whether nobody comes in without a credential: server mode."""
        return self.auth == "required"


def host_header(url: str) -> str:
    """What a client that goes there writes into `Host`.

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
    """The settings in force, and for each where it came from."""

    settings: Settings
    sources: Mapping[str, str]
