"""An issuer of sign-ins: where its doors are, which keys it signs with, and whether it said so.

Its keys are fetched when they are first needed, and again when a token names a key that is not
known: a new key works at once, and whoever makes up names of keys costs one question in half a
minute. What is fetched takes the place of what was known, so a key that was withdrawn is gone.
While the issuer is out of reach, the keys that are known go on.
"""

import asyncio
import logging
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import quote

from waybook.errors import EndpointFailed, Unauthenticated, Unavailable
from waybook.integrations.config import IssuerSettings, is_secure_url
from waybook.integrations.http_client import BoundedHttpClient
from waybook.integrations.oidc_discovery import (
    MAX_DISCOVERY_BYTES,
    SECONDS,
    IssuerEndpoints,
    Key,
    discover_endpoints,
    fetch_keys,
    parse_header,
    usable_keys,
    validate_claims,
    verify_signature,
)
from waybook.integrations.oidc_login import Claims

log = logging.getLogger(__name__)

#: The least time between two looks, whatever is asked of us meanwhile.
MIN_REFRESH_SECONDS: Final = 30.0
#: Keys older than this are looked for again, beside the calls, so that withdrawn ones end.
STALE_SECONDS: Final = 900.0


class Issuer:
    """The one issuer there is; close it at the end."""

    def __init__(
        self, settings: IssuerSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` says how many seconds have passed."""
        self.settings = settings
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._doors: IssuerEndpoints | None = None
        self._tried_at: float | None = None
        self._fetched_at: float | None = None
        self._looking: asyncio.Task[None] | None = None

    async def claims(self, text: str, *, audience: str, now: datetime) -> Claims:
        """What a token says, if it is the issuer's, for this audience and for now.

        Raises:
            Unidentified: it is not.
            Unavailable: its key is not known, and the issuer cannot be asked.
        """
        header = parse_header(text)
        claims = verify_signature(text, await self._key(header), header)
        validate_claims(claims, issuer=self.settings.issuer, audience=audience, now=now)
        return claims

    async def endpoints(self) -> IssuerEndpoints:
        """Where people sign in.

        Raises:
            Unavailable: it is not known, and the issuer cannot be asked.
        """
        if self._doors is None:
            await self._look()
        if self._doors is None or not all(
            map(is_secure_url, (self._doors.authorize, self._doors.token))
        ):
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        return self._doors

    async def redeem(self, fields: Mapping[str, str]) -> Claims:
        """What the issuer hands out for the code somebody came back with.

        Raises:
            Unidentified: nothing.
            Unavailable: it cannot be asked.
        """
        doors = await self.endpoints()
        sent, headers = self._as_client(fields, in_form=doors.secret_in_form)
        exchange = BoundedHttpClient(
            doors.token,
            headers={},
            secret=self.settings.client_secret,
            most_bytes=MAX_DISCOVERY_BYTES,
        )
        try:
            told = await exchange.post_form(sent, headers, seconds=SECONDS)
        except EndpointFailed as error:
            if error.details.get("status") in {400, 401, 403}:
                raise Unauthenticated("the issuer hands out nothing for that code") from None
            raise Unavailable("the sign-in service does not answer right now") from error
        finally:
            await exchange.close()
        if not isinstance(told, dict):
            raise Unauthenticated("the issuer hands out something unknown")
        return told

    def _as_client(
        self, fields: Mapping[str, str], *, in_form: bool
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The fields and the headers by which the issuer knows who redeems a code."""
        client, secret = self.settings.client_id or "", self.settings.client_secret
        if secret is None or in_form:
            known = {"client_id": client, **({"client_secret": secret} if secret else {})}
            return {**fields, **known}, {}
        pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
        return {**fields}, {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    # Keys

    async def _key(self, header: Claims) -> Key:
        found = self._known(header)
        if found is None:
            await self._look()
            found = self._known(header)
        elif self._is_stale():
            self._start()
        if found is not None:
            return found
        if self._fetched_at is None or self._fetched_at != self._tried_at:
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        raise Unauthenticated("it is signed with a key that the issuer does not have")

    def _known(self, header: Claims) -> Key | None:
        """The key a token names; the only fitting one, if it names none."""
        fitting = [key for key in self._keys if header["alg"] in key.algorithms]
        if "kid" in header:
            fitting = [key for key in fitting if key.name == header["kid"]]
        return fitting[0] if len(fitting) == 1 else None

    def _is_stale(self) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > STALE_SECONDS

    # Looking

    async def _look(self) -> None:
        """Ask the issuer anew, unless that was done a moment ago; everybody waits for one look."""
        looking = self._start()
        if looking is not None:
            await asyncio.shield(looking)

    def _start(self) -> asyncio.Task[None] | None:
        if self._looking is not None and not self._looking.done():
            return self._looking
        if self._tried_at is not None and self._clock() - self._tried_at < MIN_REFRESH_SECONDS:
            return None
        self._tried_at = self._clock()
        self._looking = asyncio.create_task(self._fetch(self._tried_at))
        return self._looking

    async def _fetch(self, at: float) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                doors = await discover_endpoints(self.settings.issuer)
                listed = await fetch_keys(doors)
        except (EndpointFailed, TimeoutError) as error:
            log.warning("the issuer %s cannot be asked: %s", self.settings.issuer, error)
            return
        self._doors, self._keys, self._fetched_at = doors, usable_keys(listed), at
