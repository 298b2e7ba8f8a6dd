"""An issuer asked once, to tell whoever runs the server what it finds."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from waybook.endpoints.discovery import SECONDS, Doors, find_doors, find_keys, usable
from waybook.endpoints.issuer_settings import is_guarded
from waybook.errors import EndpointFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedIssuer:
    """What was found, as far as it was."""

    #: Why it does not answer as itself, or why its keys cannot be had.
    fault: str | None = None
    keys_fault: str | None = None
    #: How many keys it publishes, and how many of these can be used with each algorithm.
    published: int = 0
    usable: int = 0
    algorithms: tuple[str, ...] = ()
    #: Whether it says where people sign in.
    has_pages: bool = False


async def examine_issuer(issuer: str) -> ExaminedIssuer:
    """Ask it what a server asks, within the same bounds; what goes wrong is a finding."""
    try:
        async with asyncio.timeout(SECONDS):
            doors = await find_doors(issuer)
    except (EndpointFailed, TimeoutError) as fault:
        return ExaminedIssuer(fault=_said(fault))
    return await _examine_keys(doors)


async def _examine_keys(doors: Doors) -> ExaminedIssuer:
    has_pages = all(map(is_guarded, (doors.authorize, doors.token)))
    try:
        async with asyncio.timeout(SECONDS):
            listed = await find_keys(doors)
    except (EndpointFailed, TimeoutError) as fault:
        return ExaminedIssuer(keys_fault=_said(fault), has_pages=has_pages)
    good = usable(listed)
    algorithms = Counter(name for key in good for name in key.algorithms)
    return ExaminedIssuer(
        published=len(listed),
        usable=len(good),
        algorithms=tuple(sorted(algorithms)),
        has_pages=has_pages,
    )


def _said(fault: EndpointFailed | TimeoutError) -> str:
    if isinstance(fault, EndpointFailed):
        return fault.message
    return f"it gave no whole answer within {SECONDS:.3g} s"
