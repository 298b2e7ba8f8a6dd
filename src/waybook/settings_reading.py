"""Load settings from flags, environment variables, a file and defaults, in this precedence."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from waybook.errors import Misconfigured
from waybook.settings import LOOPBACK, LoadedSettings, Settings

_ENVIRONMENT = "WAYBOOK_"
#: Minimum length of a secret. A shorter secret could be guessed.
MIN_SECRET_LENGTH = 16
MAX_FILE_BYTES = 1024 * 1024
_CHOICES = {
    "auth": ("none", "required"),
    "tools": ("auto", "research", "runs", "all"),
    "migrate": ("embedded", "always"),
    "pages": ("on", "off"),
    "search_vectors": ("auto", "portable", "pgvector"),
}
#: Least and greatest value of each numeric setting. None if there is no greatest value.
_RANGES = {
    "port": (0, 65_535),
    "workers": (1, 64),
    "drain_seconds": (0, 300),
    "calls_per_second": (0, None),
    "keep_calls_days": (0, None),
    "keep_archived_days": (0, None),
    "stall_seconds": (1, None),
    "lease_seconds": (1, None),
    "pool_size": (1, None),
}


def read_settings(
    flags: Mapping[str, object], environment: Mapping[str, str], file: Path | None = None
) -> LoadedSettings:
    """Load and validate the settings.

    Raises:
        Misconfigured: the file cannot be read, a setting is unknown, or a value is not allowed.
    """
    home = environment.get("HOME", "/")
    configured = environment.get("XDG_CONFIG_HOME") or Path(home) / ".config"
    named = environment.get("WAYBOOK_CONFIG")
    path = file or Path(named or Path(configured) / "waybook" / "config.toml")
    data = environment.get("XDG_DATA_HOME") or Path(home) / ".local" / "share"
    file_values = _read_file(path)
    values: dict[str, object] = {}
    sources: dict[str, str] = {}
    for setting in fields(Settings):
        name = setting.name
        variable = _ENVIRONMENT + name.upper()
        if flags.get(name) is not None:
            values[name], sources[name] = flags[name], "flag"
        elif environment.get(variable):
            values[name], sources[name] = environment[variable], f"environment {variable}"
        elif name in file_values:
            values[name], sources[name] = file_values[name], f"file {path}"
        else:
            values[name], sources[name] = setting.default, "default"
            if name == "data_dir":
                values[name] = Path(data) / "waybook"
        values[name] = _typed(name, values[name], setting.default, setting.type)
    settings = Settings(**values)  # type: ignore[arg-type]  # checked one by one just above
    _check(settings)
    return LoadedSettings(settings, sources)


def settings_from(flags: Mapping[str, object]) -> LoadedSettings:
    """Load the settings of a command with these flags."""
    return read_settings(flags, os.environ)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise Misconfigured(f"the configuration file {path} has over {MAX_FILE_BYTES} bytes")
        file_values = tomllib.loads(text.decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise Misconfigured(f"cannot read the configuration file {path}: {error}") from error
    unknown = set(file_values) - {setting.name for setting in fields(Settings)}
    if unknown:
        raise Misconfigured(f"{path} has unknown settings; remove: {', '.join(sorted(unknown))}")
    return file_values


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
    for name, allowed in _CHOICES.items():
        value = getattr(settings, name)
        if value not in allowed:
            *others, last = allowed
            raise Misconfigured(f"{name} must be {', '.join(others)} or {last}, not {value!r}")
    for name, (least, most) in _RANGES.items():
        number = getattr(settings, name)
        if number is not None and not least <= number <= (most or number):
            bounds = f"{least} to {most}" if most else f"{least} or more"
            raise Misconfigured(f"{name} must be {bounds}, not {number}")
    if settings.log_level.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}:
        raise Misconfigured(
            f"log_level must be DEBUG, INFO, WARNING or ERROR, not {settings.log_level!r}"
        )
    for name in ("public_url", "webhook_url", "embeddings_url", "model_url"):
        _check_url(name, getattr(settings, name))
    _check_server(settings)
    _check_webhook(settings)
    _check_models(settings)


def _check_server(settings: Settings) -> None:
    if settings.host not in LOOPBACK and not settings.requires_auth:
        raise Misconfigured(
            f"serving on {settings.host} without tokens would give everyone in the network access. "
            "Add --auth required and make tokens with waybook token add, or serve only this "
            "machine with --host 127.0.0.1"
        )
    token = settings.metrics_token
    if token is not None and not (
        token.isascii() and token.isprintable() and len(token) >= MIN_SECRET_LENGTH
    ):
        raise Misconfigured(
            f"metrics_token must be at least {MIN_SECRET_LENGTH} characters of printable ASCII"
        )


def _check_models(settings: Settings) -> None:
    if bool(settings.embeddings_url) != bool(settings.embeddings_model):
        raise Misconfigured("embeddings_url and embeddings_model need each other; set both")
    for endpoint in ("embeddings", "model"):
        where = urlsplit(getattr(settings, f"{endpoint}_url") or "")
        if where.username or where.password or where.query or where.fragment:
            message = f"{endpoint}_url must not contain a key; put it into {endpoint}_key"
            raise Misconfigured(message)
    if settings.model_url is None:
        return
    if not settings.model:
        raise Misconfigured("model_url is set, but no model; set model to the name of a model")
    key = settings.model_key or ""
    if not (key.isascii() and key.isprintable()):
        raise Misconfigured("model_key must be printable ASCII, because it is sent in a header")


def _check_webhook(settings: Settings) -> None:
    name, folder = settings.webhook_form
    if name not in {"standard", "slack", "text"} or (folder and name == "standard"):
        raise Misconfigured(
            "webhook_format must be standard, slack or text, not "
            f"{settings.webhook_format!r}; only slack and text have templates"
        )
    if settings.webhook_reviewer and not settings.webhook_secret:
        raise Misconfigured(
            "webhook_reviewer has no effect without webhook_secret; set webhook_secret too"
        )
    if settings.webhook_secret and not settings.webhook_url:
        raise Misconfigured("webhook_secret has no effect without webhook_url; set webhook_url too")


def _check_url(name: str, url: str | None) -> None:
    """Raise an error if a setting is not an HTTP URL.

    The message omits the URL, because it may be a secret.
    """
    if url is None:
        return
    try:
        where = urlsplit(url)
        good = where.scheme in {"http", "https"} and bool(where.hostname) and where.port != 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise Misconfigured(f"{name} must begin with http:// or https://, and name a host")
