"""Display of settings with their secrets masked."""

from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from waybook import redaction
from waybook.settings import LoadedSettings, Settings

SECRET_SETTINGS = frozenset(
    {
        "embeddings_key",
        "model_key",
        "webhook_secret",
        "token",
        "metrics_token",
        "oidc_client_secret",
    }
)

#: Settings with a URL that is a secret, because knowing the URL is enough to use it.
_SECRET_URLS = frozenset({"webhook_url"})


def display_setting(name: str, value: object) -> str:
    """Return the value of a setting with its secrets masked.

    >>> (
    ...     display_setting("embeddings_key", "s3cret"),
    ...     display_setting("embeddings_key", None),
    ...     display_setting("port", 8750),
    ... )
    ('…', '', '8750')
    >>> display_setting("webhook_url", "https://hooks.slack.com/services/T0/B0/XYZ")
    'https://hooks.slack.com/…'
    """
    if name in _SECRET_URLS and value:
        where = urlsplit(str(value))
        return f"{where.scheme}://{where.hostname}/…"
    return "…" if name in SECRET_SETTINGS and value else mask_setting_password(value)


def mask_setting_password(value: object) -> str:
    """Return a setting's value as text, with a password in it masked.

    >>> mask_setting_password("postgresql://ann:s3cret@db/plans")
    'postgresql://ann:…@db/plans'
    >>> mask_setting_password("host=db password=s3cret user=ann"), mask_setting_password(None)
    ('host=db password=… user=ann', '')
    """
    return "" if value is None else redaction.mask_password(str(value))


def known_secrets(settings: Settings) -> Iterator[str]:
    """Yield all secret values that logs must not contain.

    >>> [*known_secrets(Settings(owner_url="postgresql://ann:s3%2Fcret@db/plans", model_key="k"))]
    ['k', 's3%2Fcret', 's3/cret']
    """
    yield from filter(None, (getattr(settings, name) for name in sorted(SECRET_SETTINGS)))
    for name in sorted(_SECRET_URLS):
        if address := getattr(settings, name):
            yield urlsplit(address).path
    for url in (settings.database_url, settings.owner_url):
        with suppress(ValueError):
            if password := urlsplit(url or "").password:
                yield from (password, unquote(password))


def effective_settings(loaded: LoadedSettings) -> list[tuple[str, str, str]]:
    return [
        (name, display_setting(name, getattr(loaded.settings, name)), source)
        for name, source in loaded.sources.items()
    ]
