"""Signatures by which a receiver knows a letter is ours, in the format of Standard Webhooks.

Signed are the id, the time of the attempt and the body, joined by full stops, with HMAC-SHA256.
See https://www.standardwebhooks.com.
"""

import base64
import binascii
import hmac

from waybook.errors import Misconfigured

PREFIX = "whsec_"
#: What the format asks of a secret, in bytes.
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """The secrets in a setting: one, or while one takes the place of another, both.

    Raises:
        Misconfigured: one of them is not in the format.
    """
    return tuple(_secret(word) for word in text.split())


def _secret(word: str) -> bytes:
    try:
        secret = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        secret = b""
    if not word.startswith(PREFIX) or not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise Misconfigured(
            f"webhook_secret must be {PREFIX} and the base64 of {MIN_SECRET_BYTES} to "
            f"{MAX_SECRET_BYTES} random bytes; make one with: echo whsec_$(openssl rand -base64 32)"
        )
    return secret


def signature_headers(
    letter_id: str, at: int, body: bytes, secrets: tuple[bytes, ...]
) -> dict[str, str]:
    """The headers of an attempt at this second; with no secret it is not signed."""
    content = f"{letter_id}.{at}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, content, "sha256")).decode() for key in secrets]
    headers = {"webhook-id": letter_id, "webhook-timestamp": str(at)}
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{told}" for told in signatures)
    return headers
