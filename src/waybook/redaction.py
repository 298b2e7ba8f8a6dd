"""Mask secrets in logs, errors and the call log.

A secret is recognized by its format or, if its value is known, by its value. Content that agents
store is never changed.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

_MASK: Final = "…"

#: Shorter secrets are not masked, because they could be ordinary words.
_MIN_KNOWN_SECRET_LENGTH: Final = 6

#: Password in a URL. The word `password` itself is a placeholder and not masked.
_IN_URL = re.compile(r"(://[^:/@\s]{0,256}:)(?!password@)[^@\s]{0,256}+@")
_IN_WORDS = re.compile(r"(password\s{0,8}=\s{0,8})('[^']{0,1024}'|[^\s&]{1,1024})", re.IGNORECASE)

_SHAPES: Final = (
    # API tokens of Waybook, API keys of model endpoints, and webhook secrets.
    (re.compile(r"(\bwb_)[A-Za-z0-9]{20,}"), r"\1…"),
    (re.compile(r"(\bsk-)[A-Za-z0-9_-]{16,}"), r"\1…"),
    (re.compile(r"(\bwhsec_)[A-Za-z0-9+/=_-]{8,}"), r"\1…"),
    # JSON Web Token.
    (
        re.compile(
            r"(?<![A-Za-z0-9_-])((?>[A-Za-z0-9_-]*?\beyJ))[A-Za-z0-9_-]{8,}+"
            r"\.[A-Za-z0-9_-]{4,}(\.[A-Za-z0-9_-]*)?"
        ),
        r"\1…",
    ),
    # Credentials in an Authorization header.
    (
        re.compile(
            r"(\bauthorization\b['\"]?\s{0,8}[:=,]\s{0,8}b?['\"]?(?:\w{1,20}\s{1,8})?)[^\s'\",)]+",
            re.IGNORECASE,
        ),
        r"\1…",
    ),
    (
        re.compile(r"(\b(?:bearer|basic)\s{1,8})(?=\S{0,64}\d|\S{16})[^\s'\",)]+", re.IGNORECASE),
        r"\1…",
    ),
    (re.compile(r"(\bcookie\b['\"]?\s{0,8}[:,]\s{0,8}b?['\"]?)[^\r\n'\"]+", re.IGNORECASE), r"\1…"),
    # Query parameters whose name suggests a secret.
    (
        re.compile(
            r"([?&;](?:\w{0,20}[_-])?(?:token|key|secret|password|code)=)[^&\s'\"#]+", re.IGNORECASE
        ),
        r"\1…",
    ),
    (_IN_URL, r"\1…@"),
    (_IN_WORDS, r"\1…"),
)

#: Quick check for texts that may contain a secret. Most texts do not match, and are not searched.
_HINT = re.compile(
    r"wb_|sk-|whsec_|eyJ|authorization|bearer|basic|cookie|token|key=|secret|password|code=|://",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """Mask everything in a text that looks like a secret.

    >>> redact("no plan wb_" + "k3" * 20)
    'no plan wb_…'
    >>> redact("Authorization: Bearer hunter2; postgresql://ann:s3cret@db/plans")
    'Authorization: Bearer … postgresql://ann:…@db/plans'
    >>> redact("GET /mcp?access_token=abc&x=1"), redact("a bearer token is missing")
    ('GET /mcp?access_token=…&x=1', 'a bearer token is missing')
    """
    if _HINT.search(text) is None:
        return text
    for shape, left in _SHAPES:
        text = shape.sub(left, text)
    return text


def redact_json(value: object, mask: Callable[[str], str] = redact) -> object:
    """Mask secrets in all texts within a JSON value."""
    match value:
        case str():
            return mask(value)
        case dict():
            return {redact_json(n, mask): redact_json(inner, mask) for n, inner in value.items()}
        case list() | tuple():
            return [redact_json(inner, mask) for inner in value]
        case _:
            return value


def redactor(known: Iterable[str]) -> Callable[[str], str]:
    """Return a function that masks these secrets and everything that looks like a secret.

    >>> redactor(["correct horse"])("it is: correct horse")
    'it is: …'
    """
    listed = sorted(
        {secret for secret in known if len(secret) >= _MIN_KNOWN_SECRET_LENGTH},
        key=len,
        reverse=True,
    )
    if not listed:
        return redact
    values = re.compile("|".join(map(re.escape, listed)))
    return lambda text: redact(values.sub(_MASK, text))


def mask_password(text: str) -> str:
    """Mask the password in a database URL or connection string.

    >>> mask_password("postgresql://ann:s3cret@db/plans")
    'postgresql://ann:…@db/plans'
    >>> mask_password("host=db password=s3cret user=ann")
    'host=db password=… user=ann'
    """
    return _IN_WORDS.sub(r"\1…", _IN_URL.sub(r"\1…@", text))
