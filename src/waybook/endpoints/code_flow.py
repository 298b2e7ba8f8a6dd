"""Signing in at an issuer with a browser: the code flow of OpenID Connect with PKCE, without state.

What a flow has to remember is kept by the browser itself, in a cookie of its own: whoever comes
back with a code must be the one who was sent.
"""

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final
from urllib.parse import urlencode

import orjson

from waybook.endpoints.issued import Claims, IssuerClient
from waybook.errors import Unauthenticated

STATE_LENGTH: Final = 32
#: What we ask of the issuer: who somebody is.
REQUESTED_SCOPES: Final = "openid profile email"
MAX_CODE_LENGTH: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInAttempt:
    """One attempt to sign in."""

    state: str
    nonce: str
    verifier: str
    #: Where somebody wants to go then.
    return_to: str

    def to_cookie(self) -> str:
        """What the browser keeps."""
        return urlsafe_b64encode(orjson.dumps(asdict(self))).decode()


def new_attempt(then: str) -> SignInAttempt:
    """An attempt that nobody can guess."""
    state, nonce, verifier = (secrets.token_urlsafe(STATE_LENGTH) for _ in range(3))
    return SignInAttempt(state=state, nonce=nonce, verifier=verifier, return_to=then)


def attempt_from_cookie(kept: str) -> SignInAttempt | None:
    """The attempt a browser kept, or nothing.

    >>> flow = new_attempt("/inbox")
    >>> (
    ...     attempt_from_cookie(flow.to_cookie()) == flow,
    ...     attempt_from_cookie("e30="),
    ...     attempt_from_cookie("?"),
    ... )
    (True, None, None)
    """
    try:
        found = orjson.loads(urlsafe_b64decode(kept.encode()))
        flow = SignInAttempt(**found)
    except (ValueError, TypeError):
        return None
    return flow if all(isinstance(value, str) for value in asdict(flow).values()) else None


async def authorization_url(issuer: IssuerClient, flow: SignInAttempt, back: str) -> str:
    """Where to send the browser; it comes back to the address `back`.

    Raises:
        Unavailable: the issuer cannot be asked where that is.
    """
    authorize = (await issuer.endpoints()).authorize
    challenge = urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code",
        "client_id": issuer.settings.client_id or "",
        "redirect_uri": back,
        "scope": REQUESTED_SCOPES,
        "state": flow.state,
        "nonce": flow.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{authorize}{'&' if '?' in authorize else '?'}{urlencode(asked)}"


async def exchange_code(
    issuer: IssuerClient, flow: SignInAttempt, returned: dict[str, str], *, back: str, now: datetime
) -> Claims:
    """Who came back, by what they brought with them.

    Raises:
        Unidentified: it is not good.
        Unavailable: the issuer cannot be asked.
    """
    if not secrets.compare_digest(returned.get("state", "").encode(), flow.state.encode()):
        raise Unauthenticated("somebody else was sent to sign in")
    if returned.get("iss", issuer.settings.issuer) != issuer.settings.issuer:
        raise Unauthenticated("they come from another issuer")
    code = returned.get("code", "")
    if not 0 < len(code) <= MAX_CODE_LENGTH:
        raise Unauthenticated("they come back without a code")
    handed = await issuer.redeem(
        {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": back,
            "code_verifier": flow.verifier,
        }
    )
    return await _identity(issuer, flow, handed, now)


async def _identity(
    issuer: IssuerClient, flow: SignInAttempt, handed: Claims, now: datetime
) -> Claims:
    """What the ID token says, if it was made for us and for this attempt."""
    client, text = issuer.settings.client_id or "", handed.get("id_token")
    if not isinstance(text, str):
        raise Unauthenticated("the issuer does not say who it is")
    claims = await issuer.claims(text, audience=client, now=now)
    nonce, meant = claims.get("nonce"), claims.get("aud")
    if not isinstance(nonce, str) or not secrets.compare_digest(
        nonce.encode(), flow.nonce.encode()
    ):
        raise Unauthenticated("it was made for another attempt")
    several = isinstance(meant, list) and len(meant) > 1
    if claims.get("azp", None if several else client) != client:
        raise Unauthenticated("it was made for another program")
    return claims
