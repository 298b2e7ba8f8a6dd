"""OpenID Connect issuer: endpoint URLs, cached signing keys, and token verification.

Keys are fetched again when a token names an unknown key, but at most twice a minute.
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

MIN_REFRESH_SECONDS: Final = 30.0
#: Older keys are fetched again in the background, so that withdrawn keys disappear.
STALE_SECONDS: Final = 900.0


class Issuer:
    """Client for the configured OpenID Connect issuer."""

    def __init__(
        self, settings: IssuerSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._keys: tuple[Key, ...] = ()
        self._doors: IssuerEndpoints | None = None
        self._tried_at: float | None = None
        self._fetched_at: float | None = None
        self._looking: asyncio.Task[None] | None = None

    async def claims(self, text: str, *, audience: str, now: datetime) -> Claims:
        """Verify a token's signature, issuer, audience and validity, and return its claims.

        Raises:
            Unauthenticated: the token is not valid.
            Unavailable: its key is not cached, and the issuer is unreachable.
        """
        header = parse_header(text)
        claims = verify_signature(text, await self._key(header), header)
        validate_claims(claims, issuer=self.settings.issuer, audience=audience, now=now)
        return claims

    async def endpoints(self) -> IssuerEndpoints:
        """Return the issuer's endpoint URLs for browser sign-in.

        Raises:
            Unavailable: the URLs are not cached, and the issuer is unreachable.
        """
        if self._doors is None:
            await self._look()
        if self._doors is None or not all(
            map(is_secure_url, (self._doors.authorize, self._doors.token))
        ):
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        return self._doors

    async def redeem(self, fields: Mapping[str, str]) -> Claims:
        """Exchange an authorization code at the token endpoint and return the response.

        Raises:
            Unauthenticated: the issuer rejected the code.
            Unavailable: the issuer is unreachable.
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
            response = await exchange.post_form(sent, headers, seconds=SECONDS)
        except EndpointFailed as error:
            if error.details.get("status") in {400, 401, 403}:
                raise Unauthenticated("the issuer refused the code") from None
            raise Unavailable("the sign-in service does not answer right now; try again") from error
        finally:
            await exchange.close()
        if not isinstance(response, dict):
            raise Unauthenticated("the issuer's answer to the code is not a JSON object")
        return response

    def _as_client(
        self, fields: Mapping[str, str], *, in_form: bool
    ) -> tuple[dict[str, str], dict[str, str]]:
        client, secret = self.settings.client_id or "", self.settings.client_secret
        if secret is None or in_form:
            known = {"client_id": client, **({"client_secret": secret} if secret else {})}
            return {**fields, **known}, {}
        pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
        return {**fields}, {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _key(self, header: Claims) -> Key:
        key = self._known(header)
        if key is None:
            await self._look()
            key = self._known(header)
        elif self._is_stale():
            self._start()
        if key is not None:
            return key
        if self._fetched_at is None or self._fetched_at != self._tried_at:
            raise Unavailable("the sign-in service cannot be reached right now; try again")
        raise Unauthenticated("it is signed with a key that the issuer does not publish")

    def _known(self, header: Claims) -> Key | None:
        """Return the key that the header names or, without a name, the only suitable key."""
        fitting = [key for key in self._keys if header["alg"] in key.algorithms]
        if "kid" in header:
            fitting = [key for key in fitting if key.name == header["kid"]]
        return fitting[0] if len(fitting) == 1 else None

    def _is_stale(self) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > STALE_SECONDS

    async def _look(self) -> None:
        """Fetch keys and endpoints, unless that was done recently."""
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
