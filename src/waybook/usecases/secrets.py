"""What must not be shown."""

import re
from urllib.parse import urlsplit

from waybook.settings import Found

_IN_URL = re.compile(r"(://[^:/@\s]+:)[^@\s]*@")
_IN_WORDS = re.compile(r"(password\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)


#: Settings that are nothing but a secret.
SECRETS = frozenset({"embeddings_key", "model_key", "webhook_secret"})


#: Addresses that let in whoever knows them.
SECRET_ADDRESSES = frozenset({"webhook_url"})


def shown(name: str, value: object) -> str:
    """A setting as anybody may see it.

    >>> shown("embeddings_key", "s3cret"), shown("embeddings_key", None), shown("port", 8750)
    ('…', '', '8750')
    >>> shown("webhook_url", "https://hooks.slack.com/services/T0/B0/XYZ")
    'https://hooks.slack.com/…'
    """
    if name in SECRET_ADDRESSES and value:
        where = urlsplit(str(value))
        return f"{where.scheme}://{where.hostname}/…"
    return "…" if name in SECRETS and value else without_password(value)


def without_password(value: object) -> str:
    """A setting as text, its password covered.

    >>> without_password("postgresql://ann:s3cret@db/plans")
    'postgresql://ann:…@db/plans'
    >>> without_password("host=db password=s3cret user=ann"), without_password(None)
    ('host=db password=… user=ann', '')
    """
    if value is None:
        return ""
    return _IN_WORDS.sub(r"\1…", _IN_URL.sub(r"\1…@", str(value)))


def in_force(found: Found) -> list[tuple[str, str, str]]:
    """Every setting: its name, its value as anybody may see it, and where it came from."""
    return [
        (name, shown(name, getattr(found.settings, name)), source)
        for name, source in found.sources.items()
    ]
