"""The `Authorization` header and its challenge, as RFC 6750 has them."""

import re
from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from waybook.transport.web.guards import header_values

REALM: Final = "waybook"
_BEARER: Final = re.compile(r"bearer(?: +(?P<secret>.*))?", re.IGNORECASE | re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """What a request shows: nothing of our kind, one secret, or something that is none."""

    #: Whether it tried to show something.
    present: bool = False
    secret: str | None = None


def read_bearer(scope: Scope) -> PresentedToken:
    """The secret in a request's header; anywhere else it does not count.

    Two headers are one too many: whoever stands before us may have looked at the other one.
    """
    values = header_values(scope, b"authorization")
    if not values:
        return PresentedToken()
    matched = _BEARER.fullmatch(values[0]) if len(values) == 1 else None
    if len(values) > 1 or matched is None:
        return PresentedToken(present=len(values) > 1)
    return PresentedToken(present=True, secret=matched["secret"] or None)


def challenge(shown: PresentedToken, metadata_url: str | None = None) -> str:
    """What to show, told to whoever showed nothing, or something that does not count.

    >>> challenge(PresentedToken())
    'Bearer realm="waybook"'
    >>> challenge(PresentedToken(present=True)).partition(", ")[2].partition(", ")[0]
    'error="invalid_token"'
    """
    told = [f'Bearer realm="{REALM}"']
    if shown.present:
        told.append('error="invalid_token"')
        told.append('error_description="The token is unknown, malformed, expired or revoked"')
    if metadata_url is not None:
        told.append(f'resource_metadata="{metadata_url}"')
    return ", ".join(told)


def insufficient_scope_header(details: object) -> dict[str, str]:
    """Which scope a credential that counts has not got, as a header, if an error says so.

    >>> insufficient_scope_header({"needed": ["plan:read"]})["www-authenticate"]
    'Bearer realm="waybook", error="insufficient_scope", scope="plan:read"'
    """
    match details:
        case {"needed": list() as scopes}:
            told = f'error="insufficient_scope", scope="{" ".join(map(str, scopes))}"'
            return {"www-authenticate": f'Bearer realm="{REALM}", {told}'}
    return {}
