"""Settings: flags, then environment, then a file, then defaults; read once, at the start.

Each value remembers where it came from, so that `waybook doctor` can say so.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from waybook.errors import Misconfigured

ENVIRONMENT = "WAYBOOK_"
#: Addresses to listen on that are nobody's name.
EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - told apart, not listened on
#: A secret that is shorter can be guessed.
SECRET = 16
#: How many calls a second an org may make in server mode, unless it is said.
CALLS_PER_SECOND = 60
#: How long each is kept.
KEEPING = ("keep_calls_days", "keep_answers_days", "keep_sessions_days", "keep_archived_days")
#: How many bytes the configuration file may have.
LARGEST_FILE = 1024 * 1024
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
        return self.public_url.rstrip("/") if self.public_url else self.own_url

    @property
    def own_url(self) -> str:
        """Where we listen."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def host_names(self) -> frozenset[str]:
        """The names we answer to beside those of this machine, as clients write them."""
        named = {name.strip() for name in self.allowed_hosts.split(",")}
        if self.public_url or self.host not in EVERYWHERE:
            named.add(as_host(self.base_url))
        return frozenset(name.lower() for name in named if name)

    @property
    def pace(self) -> int:
        """How many calls a second an org may make; in local mode nobody is there to be spared."""
        if self.calls_per_second is not None:
            return self.calls_per_second
        return CALLS_PER_SECOND if self.asks_everybody else 0

    @property
    def asks_everybody(self) -> bool:
        """Whether nobody comes in without a credential: server mode."""
        return self.auth == "required"


def as_host(url: str) -> str:
    """What a client that goes there writes into `Host`.

    >>> as_host("https://plans.example:443/x"), as_host("http://[::1]:8750")
    ('plans.example', '[::1]:8750')
    """
    where = urlsplit(url)
    name = where.hostname or ""
    name = f"[{name}]" if ":" in name else name
    usual = {"http": 80, "https": 443}.get(where.scheme)
    return name if where.port in {None, usual} else f"{name}:{where.port}"


@dataclass(frozen=True, slots=True)
class Found:
    """The settings in force, and for each where it came from."""

    settings: Settings
    sources: Mapping[str, str]


def read_settings(
    flags: Mapping[str, object], environment: Mapping[str, str], file: Path | None = None
) -> Found:
    """Put the settings together.

    Raises:
        Misconfigured: a value is not of its kind, or names nothing known.
    """
    path = file or _config_file(environment)
    kept = _read_file(path)
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for setting in fields(Settings):
        name = setting.name
        variable = ENVIRONMENT + name.upper()
        if flags.get(name) is not None:
            values[name], sources[name] = flags[name], "flag"
        elif environment.get(variable):
            values[name], sources[name] = environment[variable], f"environment {variable}"
        elif name in kept:
            values[name], sources[name] = kept[name], f"file {path}"
        else:
            values[name], sources[name] = _default(name, setting.default, environment), "default"
        values[name] = _typed(name, values[name], setting.default, setting.type)
    settings = Settings(**values)  # type: ignore[arg-type]  # checked one by one just above
    _check(settings)
    return Found(settings, sources)


def _config_file(environment: Mapping[str, str]) -> Path:
    named = environment.get("WAYBOOK_CONFIG")
    if named:
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "/")) / ".config"
    return Path(base) / "waybook" / "config.toml"


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise Misconfigured(f"the configuration file {path} has over {LARGEST_FILE} bytes")
        kept = tomllib.loads(text.decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as fault:
        raise Misconfigured(f"cannot read the configuration file {path}: {fault}") from fault
    unknown = set(kept) - {setting.name for setting in fields(Settings)}
    if unknown:
        raise Misconfigured(f"{path}: unknown settings {', '.join(sorted(unknown))}")
    return kept


def _default(name: str, default: object, environment: Mapping[str, str]) -> object:
    if name == "data_dir":
        base = environment.get("XDG_DATA_HOME") or os.path.join(  # noqa: PTH118 - a text until it is read
            environment.get("HOME", "/"), ".local", "share"
        )
        return Path(base) / "waybook"
    return default


def _typed(name: str, value: object, default: object, kind: object) -> object:
    if isinstance(default, Path):
        return Path(str(value)).expanduser()
    if value is None:
        return None
    if kind in (int, int | None) and not isinstance(value, int):
        try:
            return int(str(value))
        except ValueError:
            raise Misconfigured(f"{name} must be a whole number, not {value!r}") from None
    return value if kind in (int, int | None) else str(value)


def _check(settings: Settings) -> None:
    _check_auth(settings)
    if settings.log_level.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise Misconfigured(
            f"there is no log level {settings.log_level!r}: use DEBUG, INFO, WARNING or ERROR"
        )
    if settings.tools not in {"plan", "research", "runs", "all"}:
        raise Misconfigured(
            f"there is no tool profile {settings.tools!r}: use plan, research, runs or all"
        )
    _check_embedder(settings)
    _check_webhook(settings)
    if not 0 <= settings.port <= 65_535:  # noqa: PLR2004 - the ports there are
        raise Misconfigured(f"port {settings.port} is not a port")
    _check_model(settings)
    if settings.pace < 0 or settings.burst < 1:
        raise Misconfigured("calls_per_second must be 0 or more, burst at least 1")
    keep = {name: getattr(settings, name) for name in KEEPING}
    if min(keep.values()) < 0:
        raise Misconfigured(f"{', '.join(keep)} are days, or 0 for ever")
    least = min(settings.stall_seconds, settings.lease_seconds, settings.pool_size)
    if least < 1 or settings.sweep_seconds < 0:
        raise Misconfigured(
            "stall_seconds, lease_seconds and pool_size must be at least 1, sweep_seconds 0 or more"
        )


def _check_auth(settings: Settings) -> None:
    if settings.auth not in {"none", "required"}:
        raise Misconfigured(f"there is no auth {settings.auth!r}: use none or required")
    if settings.host not in LOOPBACK and not settings.asks_everybody:
        raise Misconfigured(
            f"serving on {settings.host} would let anybody in: without tokens Waybook serves this "
            "machine only. Add --auth required and make tokens with waybook token add, or use "
            "127.0.0.1"
        )
    token = settings.metrics_token
    if token is not None and not (token.isascii() and token.isprintable() and len(token) >= SECRET):
        raise Misconfigured(
            f"metrics_token must be at least {SECRET} characters of printable ASCII"
        )


def _check_embedder(settings: Settings) -> None:
    if settings.embedder not in {"shipped", "endpoint"}:
        raise Misconfigured(
            f"there is no embedder {settings.embedder!r}: use shipped, or endpoint with "
            "embeddings_url and embeddings_model"
        )
    named = settings.embeddings_url and settings.embeddings_model
    if settings.embedder == "endpoint" and not named:
        raise Misconfigured("the embedder endpoint needs embeddings_url and embeddings_model")
    if settings.embedder == "shipped" and settings.embeddings_url:
        raise Misconfigured("embeddings_url is set, but not used: set embedder to endpoint")
    _check_url("embeddings_url", settings.embeddings_url)
    where = urlsplit(settings.embeddings_url or "")
    if where.username or where.password or where.query or where.fragment:
        raise Misconfigured("embeddings_url is an address alone; the key has its own setting")


def _check_model(settings: Settings) -> None:
    if settings.model_api not in {"openai", "anthropic"}:
        raise Misconfigured(
            f"there is no way to speak to models called {settings.model_api!r}: use openai or "
            "anthropic"
        )
    if not 1 <= settings.model_seconds <= 3_600:  # noqa: PLR2004 - an hour
        raise Misconfigured("model_seconds must be between 1 and 3600")
    if settings.model_url is None:
        return
    where = urlsplit(settings.model_url)
    if where.scheme not in {"http", "https"} or not where.hostname:
        raise Misconfigured("model_url must be an address that begins with http:// or https://")
    if where.username or where.password or where.query or where.fragment:
        raise Misconfigured("model_url is an address alone; the key belongs into model_key")
    if not settings.model:
        raise Misconfigured("model_url is set, but not which model to ask for: set model")
    key = settings.model_key or ""
    if not (key.isascii() and key.isprintable()):
        raise Misconfigured("model_key must be printable ASCII, as headers carry it")


def _check_webhook(settings: Settings) -> None:
    _check_url("public_url", settings.public_url)
    _check_url("webhook_url", settings.webhook_url)
    if settings.webhook_format not in {"standard", "slack", "text"}:
        raise Misconfigured(
            f"there is no webhook_format {settings.webhook_format!r}: use standard, slack or text"
        )
    if settings.webhook_secret and not settings.webhook_url:
        raise Misconfigured("webhook_secret is set, but not used: set webhook_url")


def _check_url(name: str, url: str | None) -> None:
    """Refuse what is no address of HTTP; the address itself may be a secret, and is not told."""
    if url is None:
        return
    try:
        where = urlsplit(url)
        good = where.scheme in {"http", "https"} and bool(where.hostname) and where.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise Misconfigured(f"{name} must begin with http:// or https://, and name a host")
