"""An issuer asked once, to tell whoever runs the server what it finds."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from waybook.endpoints.discovery import (
    SECONDS,
    IssuerEndpoints,
    discover_endpoints,
    fetch_keys,
    usable_keys,
)
from waybook.endpoints.issuer_settings import is_secure_url
from waybook.errors import EndpointFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerCheck:
    """What was found, as far as it was."""

    #: Why it does not answer as itself, or why its keys cannot be had.
    error: str | None = None
    keys_fault: str | None = None
    #: How many keys it publishes, and how many of these can be used with each algorithm.
    published: int = 0
    usable: int = 0
    algorithms: tuple[str, ...] = ()
    #: Whether it says where people sign in.
    has_pages: bool = False


async def check_issuer(issuer: str) -> IssuerCheck:
    """Ask it what a server asks, within the same bounds; what goes wrong is a finding."""
    try:
        async with asyncio.timeout(SECONDS):
            doors = await discover_endpoints(issuer)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(error=_said(error))
    return await _examine_keys(doors)


async def _examine_keys(doors: IssuerEndpoints) -> IssuerCheck:
    has_pages = all(map(is_secure_url, (doors.authorize, doors.token)))
    try:
        async with asyncio.timeout(SECONDS):
            listed = await fetch_keys(doors)
    except (EndpointFailed, TimeoutError) as error:
        return IssuerCheck(keys_fault=_said(error), has_pages=has_pages)
    good = usable_keys(listed)
    algorithms = Counter(name for key in good for name in key.algorithms)
    return IssuerCheck(
        published=len(listed),
        usable=len(good),
        algorithms=tuple(sorted(algorithms)),
        has_pages=has_pages,
    )


def _said(error: EndpointFailed | TimeoutError) -> str:
    if isinstance(error, EndpointFailed):
        return error.message
    return f"it gave no whole answer within {SECONDS:.3g} s"
