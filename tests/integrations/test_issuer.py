"""Tokens of an OpenID Connect issuer, requests for its keys, and the sign-in state in a cookie."""

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from fake_issuer import FakeIssuer, fake_issuer, make_key, rsa_key
from org_env import NOON, Body
from waybook.core.decision_context import Scope
from waybook.errors import Misconfigured, Unauthenticated, Unavailable
from waybook.integrations.config import IssuerSettings, issuer_from_settings
from waybook.integrations.oidc_issuer import (
    KEYS,
    MIN_REFRESH_SECONDS,
    STALE_SECONDS,
    Issuer,
    parse_header,
    parse_key,
)
from waybook.integrations.oidc_login import attempt_from_cookie, identity_from_claims, new_attempt
from waybook.settings import Settings

AUDIENCE = "http://localhost/mcp"


class Watch:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
async def there() -> AsyncIterator[FakeIssuer]:
    async with fake_issuer() as made:
        yield made


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def issuer(there: FakeIssuer, watch: Watch) -> AsyncIterator[Issuer]:
    made = Issuer(settings(there.url), clock=watch)
    yield made
    await made.close()


def settings(url: str, **more: object) -> IssuerSettings:
    named: Body = {"oidc_issuer": url, "oidc_org": "acme", "public_url": "http://localhost"}
    read = issuer_from_settings(Settings(**{**named, **more}))
    assert read is not None
    return read


async def accepted_claims(issuer: Issuer, text: str) -> Any:  # noqa: ANN401 - JSON
    return await issuer.claims(text, audience=AUDIENCE, now=NOON)


async def test_issuer_token_signed_with_any_supported_algorithm_is_accepted(
    there: FakeIssuer, issuer: Issuer
) -> None:
    there.keys = [make_key(algorithm) for algorithm in KEYS]
    for key in there.keys:
        assert (await accepted_claims(issuer, there.token(key=key)))["sub"] == "ann-1"


# Tests of invalid tokens.


def forged(there: FakeIssuer, header: Body) -> str:
    """Return a token with this header, but with the signature of another header."""
    _, payload, signature = there.token().split(".")
    return f"{encoded(header)}.{payload}.{signature}"


def encoded(part: object) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def unsigned(there: FakeIssuer) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{there.token().split('.')[1]}."


def by_public_key(there: FakeIssuer) -> str:
    """Return a token that uses the issuer's public key as the secret of an HMAC signature."""
    public = there.keys[0].private.public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header, payload = {"alg": "HS256", "kid": there.keys[0].name}, there.token().split(".")[1]
    signed = f"{encoded(header)}.{payload}".encode()
    hidden = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = urlsafe_b64encode(hidden.sign(signed, pem)).decode().rstrip("=")
    return f"{signed.decode()}.{signature}"


def altered(there: FakeIssuer) -> str:
    header, payload, signature = there.token().split(".")
    claims = json.loads(urlsafe_b64decode(payload + "=="))
    return f"{header}.{encoded({**claims, 'sub': 'bob'})}.{signature}"


SOON, AGO = int(NOON.timestamp()) + 61, int(NOON.timestamp()) - 60
BAD: dict[str, Callable[[FakeIssuer], str]] = {
    "wrong audience": lambda there: there.token(aud="http://elsewhere/mcp"),
    "audience of the pages": lambda there: there.token(aud="waybook-pages"),
    "no audience": lambda there: there.token(aud=None),
    "audiences without ours": lambda there: there.token(aud=["a", "b"]),
    "an audience that is no text": lambda there: there.token(aud={AUDIENCE: 1}),
    "expired": lambda there: there.token(exp=AGO),
    "no end": lambda there: there.token(exp=None),
    "an end that is no time": lambda there: there.token(exp="tomorrow"),
    "an end that is true": lambda there: there.token(exp=True),
    "not yet valid": lambda there: there.token(nbf=SOON),
    "made in the future": lambda there: there.token(iat=SOON),
    "other issuer": lambda there: there.token(iss="https://elsewhere.example"),
    "issuer with a slash": lambda there: there.token(iss=f"{there.url}/"),
    "no subject": lambda there: there.token(sub=None),
    "a subject that is no text": lambda there: there.token(sub=7),
    "a subject with a line break": lambda there: there.token(sub="ann\nbob"),
    "a subject too long": lambda there: there.token(sub="x" * 256),
    "not signed": unsigned,
    "signed with the public key": by_public_key,
    "unknown key": lambda there: there.token(header={"kid": "nobody's"}),
    "key of somebody else": lambda there: there.token(key=make_key(name=there.keys[0].name)),
    "altered": altered,
    "another algorithm of the same key": lambda there: forged(
        there, {"alg": "ES384", "kid": there.keys[0].name}
    ),
    "truncated": lambda there: there.token()[:-10],
    "without its signature": lambda there: there.token().rpartition(".")[0],
    "without dots": lambda there: there.token().replace(".", ""),
    "five parts": lambda there: f"{there.token()}.a.b",
    "crit": lambda there: there.token(header={"crit": ["exp"]}),
    "unencoded": lambda there: there.token(header={"b64": False}),
    "wrong type": lambda there: there.token(header={"typ": "logout+jwt"}),
    "too large": lambda there: there.token(padding="x" * 8_192),
    "empty": lambda _: "",
    "not in letters": lambda there: f"{there.token()}é",
}


async def test_invalid_tokens_of_an_issuer_raise_unauthenticated(
    there: FakeIssuer, issuer: Issuer
) -> None:
    await accepted_claims(issuer, there.token())
    accepted = {}
    for kind, made in BAD.items():
        with suppress(Unauthenticated):
            accepted[kind] = await accepted_claims(issuer, made(there))
    assert accepted == {}


async def test_issuer_token_times_may_be_off_by_a_minute(there: FakeIssuer, issuer: Issuer) -> None:
    await accepted_claims(issuer, there.token(exp=AGO + 1, nbf=SOON - 1, iat=SOON - 1))
    late = NOON + timedelta(seconds=361)
    with pytest.raises(Unauthenticated):
        await issuer.claims(there.token(), audience=AUDIENCE, now=late)


@given(st.text(max_size=300) | st.from_regex(r"[\w-]{0,60}\.[\w-]{0,60}\.[\w-]{0,60}"))
def test_issuer_token_header_parser_raises_only_unauthenticated(text: str) -> None:
    with suppress(Unauthenticated):
        assert parse_header(text)["alg"] in KEYS


@pytest.mark.parametrize("algorithm", ["none", "HS256", "ES512", "", None, 7, ["ES256"]])
def test_issuer_token_with_an_unsupported_algorithm_raises_unauthenticated(
    algorithm: object,
) -> None:
    with pytest.raises(Unauthenticated):
        parse_header(f"{encoded({'alg': algorithm})}.{encoded({})}.{encoded({})}")


# Tests of the keys of an issuer.


@pytest.mark.parametrize("algorithm", KEYS)
def test_public_key_without_algorithm_allows_every_algorithm_of_key_type(algorithm: str) -> None:
    published = make_key(algorithm).published()
    del published["alg"]
    key = parse_key(published)
    assert key is not None
    assert key.algorithms == {name for name in KEYS if KEYS[name] == KEYS[algorithm]}


def test_unusable_public_key_of_an_issuer_is_not_accepted() -> None:
    good = make_key("RS256")
    assert parse_key(good.published()) is not None
    secret = {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256", "kid": "1"}
    bad = [secret, good.published(use="enc"), good.published(alg="HS256"), good.published(d="x")]
    weak = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(1024).public_key()))
    for invalid_key in (
        *bad,
        weak,
        {"kty": "RSA", "n": "!", "e": "AQAB"},
        {},
        None,
        "key",
        {"kty": []},
    ):
        assert parse_key(invalid_key) is None, invalid_key


async def test_issuer_token_with_removed_key_is_rejected_after_key_replacement(
    there: FakeIssuer, issuer: Issuer, watch: Watch
) -> None:
    old, new = there.keys[0], make_key()
    await accepted_claims(issuer, there.token(key=old))
    there.keys, watch.at = [new], MIN_REFRESH_SECONDS
    await accepted_claims(issuer, there.token(key=new))
    assert there.request_counts["jwks"] == 2
    with pytest.raises(Unauthenticated):
        await accepted_claims(issuer, there.token(key=old))


async def test_many_unknown_key_ids_cause_a_single_request_for_keys(
    there: FakeIssuer, issuer: Issuer, watch: Watch
) -> None:
    await accepted_claims(issuer, there.token())
    flood = [there.token(header={"kid": f"made up {n}"}) for n in range(50)]
    watch.at = MIN_REFRESH_SECONDS
    answers = await asyncio.gather(
        *(accepted_claims(issuer, text) for text in flood), return_exceptions=True
    )
    assert {type(answer) for answer in answers} == {Unauthenticated}
    watch.at += MIN_REFRESH_SECONDS - 1
    with pytest.raises(Unauthenticated):
        await accepted_claims(issuer, flood[0])
    assert there.request_counts["jwks"] == 2


async def test_concurrent_first_tokens_cause_a_single_request_for_issuer_keys(
    there: FakeIssuer, issuer: Issuer
) -> None:
    await asyncio.gather(*(accepted_claims(issuer, there.token()) for _ in range(20)))
    assert there.request_counts["jwks"] == 1


async def test_tokens_with_known_keys_are_accepted_while_issuer_is_unreachable(
    there: FakeIssuer, issuer: Issuer, watch: Watch
) -> None:
    await accepted_claims(issuer, there.token())
    there.down, watch.at = True, STALE_SECONDS + 1
    await accepted_claims(issuer, there.token())
    with pytest.raises(Unavailable):
        await accepted_claims(issuer, there.token(key=make_key()))
    await accepted_claims(issuer, there.token())


async def test_unreachable_issuer_is_retried_only_after_minimum_interval(
    there: FakeIssuer, issuer: Issuer, watch: Watch
) -> None:
    there.down = True
    with pytest.raises(Unavailable):
        await accepted_claims(issuer, there.token())
    there.down = False
    with pytest.raises(Unavailable):
        await accepted_claims(issuer, there.token())
    watch.at = MIN_REFRESH_SECONDS
    await accepted_claims(issuer, there.token())


async def test_issuer_token_with_removed_key_is_rejected_after_key_refresh(
    there: FakeIssuer, issuer: Issuer, watch: Watch
) -> None:
    old = there.token()
    await accepted_claims(issuer, old)
    there.keys, watch.at = [make_key()], STALE_SECONDS + 1
    await accepted_claims(issuer, old)
    assert issuer._refreshing is not None
    await issuer._refreshing
    with pytest.raises(Unauthenticated):
        await accepted_claims(issuer, old)


async def test_issuer_with_plain_oauth_metadata_is_accepted(
    there: FakeIssuer, issuer: Issuer
) -> None:
    there.plain_oauth = True
    await accepted_claims(issuer, there.token())
    assert there.request_counts["oauth-authorization-server"] == 1


@pytest.mark.parametrize(
    "published",
    [[], {"keys": 7}, {"keys": [None, {"kty": "RSA"}]}, "x" * 300_000],
    ids=lambda value: str(value)[:20],
)
async def test_issuer_token_is_rejected_if_the_published_keys_are_invalid(
    there: FakeIssuer, issuer: Issuer, published: object
) -> None:
    there.published = published
    with pytest.raises((Unauthenticated, Unavailable)):
        await accepted_claims(issuer, there.token())


async def test_issuer_with_metadata_of_another_issuer_raises_unavailable(there: FakeIssuer) -> None:
    elsewhere = Issuer(settings(there.url.replace("127.0.0.1", "localhost")))
    with pytest.raises(Unavailable):
        await accepted_claims(elsewhere, there.token())
    await elsewhere.close()


# Tests of the identity in a token.


def test_identity_from_issuer_token_has_org_name_and_scopes() -> None:
    read = settings("https://id.example.org", oidc_org="claim:tenant")
    claims: Body = {"sub": "1", "tenant": "acme", "azp": "cli", "scope": "openid review nothing"}
    who = identity_from_claims(claims, read)
    assert (who.org, who.name, who.client, who.scopes) == (
        "acme",
        "1",
        "cli",
        frozenset({Scope.REVIEW}),
    )
    with pytest.raises(Unauthenticated):
        identity_from_claims({"sub": "1"}, read)


def test_identity_from_issuer_token_uses_email_only_if_verified() -> None:
    read = settings("https://id.example.org")
    claims: Body = {"sub": "1", "email": "ann@example.org"}
    assert identity_from_claims(claims, read).name == "1"
    assert identity_from_claims({**claims, "email_verified": "true"}, read).name == "1"
    assert identity_from_claims({**claims, "email_verified": True}, read).name == "ann@example.org"
    named = settings("https://id.example.org", oidc_user_claim="preferred_username")
    assert identity_from_claims({**claims, "preferred_username": "ann"}, named).name == "ann"


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_issuer": "http://id.example.org"},
        {"oidc_issuer": "https://id.example.org?x=1"},
        {"oidc_issuer": "https://user@id.example.org"},
        {"oidc_issuer": "id.example.org"},
        {"oidc_org": None},
        {"oidc_org": "claim:"},
        {"oidc_client_secret": "s"},
        {"oidc_new_users": "maybe"},
    ],
    ids=str,
)
def test_invalid_oidc_settings_raise_misconfigured(wrong: Body) -> None:
    with pytest.raises(Misconfigured):
        settings("https://id.example.org", **wrong)


# Tests of endpoint URLs in the metadata of an issuer.


def unsafe(there: FakeIssuer, path: str) -> list[str]:
    """Return URLs that are not allowed in metadata: empty, relative, unsafe, or on another host."""
    return [
        "",
        path,
        f"http://id.example.org{path}",
        f"file://{path}",
        there.url.replace("http://", "http://ann@") + path,
        f"{there.url}{path}#part",
    ]


@pytest.mark.parametrize("number", range(6))
async def test_unsafe_key_address_of_an_issuer_is_never_requested(
    there: FakeIssuer, issuer: Issuer, number: int
) -> None:
    there.replaced_metadata = {"jwks_uri": unsafe(there, "/jwks")[number]}
    with pytest.raises(Unavailable):
        await accepted_claims(issuer, there.token())
    assert not there.request_counts["jwks"]


@pytest.mark.parametrize("endpoint", ["authorization_endpoint", "token_endpoint"])
async def test_unsafe_sign_in_address_of_an_issuer_raises_unavailable(
    there: FakeIssuer, issuer: Issuer, endpoint: str
) -> None:
    safe = await issuer.endpoints()
    assert (safe.authorize, safe.token) == (f"{there.url}/authorize", f"{there.url}/token")
    for address in unsafe(there, "/authorize"):
        there.replaced_metadata = {endpoint: address}
        other = Issuer(issuer.settings)
        with pytest.raises(Unavailable):
            await other.endpoints()
        await other.close()


# Tests of the state of a sign-in, which is kept in a cookie.


COMPLETE_STATE = {"state": "s", "nonce": "n", "verifier": "v", "then": "/"}


def encode_cookie(text: bytes) -> str:
    return urlsafe_b64encode(text).decode()


@given(then=st.text())
def test_sign_in_state_in_the_cookie_is_read_back_unchanged(then: str) -> None:
    flow = new_attempt(then)
    assert attempt_from_cookie(flow.to_cookie()) == flow


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        100_000 * b"[",
        b'{"state":' + 100_000 * b"[",
        orjson.dumps({**COMPLETE_STATE, "more": ""}),
        orjson.dumps({**COMPLETE_STATE, "state": 1}),
        orjson.dumps({**COMPLETE_STATE, "then": None}),
        orjson.dumps({name: "x" for name in COMPLETE_STATE if name != "nonce"}),
    ],
    ids=lambda text: text[:30],
)
def test_sign_in_cookie_with_malformed_payload_is_rejected(text: bytes) -> None:
    assert attempt_from_cookie(encode_cookie(text)) is None


@given(st.text() | st.binary().map(encode_cookie))
def test_sign_in_cookie_with_arbitrary_text_is_rejected(text: str) -> None:
    assert attempt_from_cookie(text) is None
