"""Fake OpenID Connect issuer on loopback that consents to every request.

The issuer generates its keys when it starts, so no file contains a key.
"""

import json
import secrets
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from org_env import NOON, Body
from waybook.transport.http.server import listen, serve_in_background

PRIVATE = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass
class SigningKey:
    name: str
    algorithm: str
    private: PRIVATE

    def published(self, **more: object) -> Body:
        public: Any = self.private.public_key()
        kinds: dict[str, Any] = {
            "RS": RSAAlgorithm,
            "PS": RSAAlgorithm,
            "ES": ECAlgorithm,
            "Ed": OKPAlgorithm,
        }
        jwk = json.loads(kinds[self.algorithm[:2]].to_jwk(public))
        return {**jwk, "kid": self.name, "use": "sig", "alg": self.algorithm, **more}


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return an RSA key, which all tests of a process share because generation is slow."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def make_key(algorithm: str = "ES256", name: str | None = None) -> SigningKey:
    made: dict[str, Any] = {
        "RS": rsa_key,
        "PS": rsa_key,
        "ES": lambda: ec.generate_private_key(
            ec.SECP256R1() if algorithm == "ES256" else ec.SECP384R1()
        ),
        "Ed": ed25519.Ed25519PrivateKey.generate,
    }
    return SigningKey(name or secrets.token_hex(4), algorithm, made[algorithm[:2]]())


@dataclass
class FakeIssuer:
    """OpenID Connect issuer at which the person described by `person` signs in."""

    url: str = ""
    keys: list[SigningKey] = field(default_factory=lambda: [make_key()])
    #: Value to publish in place of the key set, for tests of invalid key sets.
    published: object = None
    #: Claims about the person who signs in.
    person: Body = field(default_factory=lambda: {"sub": "ann-1", "org": "acme"})
    scopes: str = "plan:read plan:write"
    audience: str = "http://localhost/mcp"
    now: datetime = NOON
    request_counts: Counter[str] = field(default_factory=Counter)
    down: bool = False
    #: True if the metadata is only at the URL that RFC 8414 (OAuth) defines, and not at the URL
    #: that OpenID Connect defines.
    plain_oauth: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    redeemed: list[dict[str, str]] = field(default_factory=list)
    #: Fields that replace those of the issuer's metadata, for tests of wrong metadata.
    replaced_metadata: Body = field(default_factory=dict)
    #: Changes to the claims of ID tokens, for tests of forged claims.
    lies: Body = field(default_factory=dict)

    def token(
        self, *, header: Body | None = None, key: SigningKey | None = None, **more: object
    ) -> str:
        """Return a valid token in which `more` replaces or adds claims; None removes a claim."""
        signing, at = key or self.keys[0], int(self.now.timestamp())
        claims = {
            "iss": self.url,
            "aud": self.audience,
            "iat": at,
            "exp": at + 300,
            "scope": self.scopes,
            "client_id": "agent",
            **self.person,
            **more,
        }
        payload = {name: value for name, value in claims.items() if value is not None}
        headers = {"kid": signing.name, "typ": "at+jwt", **(header or {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        private: Any = signing.private
        return jwt.encode(payload, private, algorithm=signing.algorithm, headers=headers)

    def about(self) -> Body:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["plan:read", "plan:write"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            **self.replaced_metadata,
        }

    async def complete(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        self.request_counts[name] += 1
        if self.down:
            return Response(status_code=503)
        if name == "openid-configuration" and self.plain_oauth:
            return Response(status_code=404)
        if name in {"openid-configuration", "oauth-authorization-server"}:
            return JSONResponse(self.about())
        key_set = {"keys": [key.published() for key in self.keys]}
        return JSONResponse(key_set if self.published is None else self.published)

    async def authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        back = {"code": code, "state": query["state"], "iss": self.url}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(back)}", 302)

    async def redeem(self, request: Request) -> Response:
        sent = {name: str(value) for name, value in (await request.form()).items()}
        self.redeemed.append({**sent, "authorization": request.headers.get("authorization", "")})
        query = self.codes.pop(sent.get("code", ""), None)
        proof = sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(proof).decode().rstrip("=")
        if query is None or query["code_challenge"] != challenge:
            return JSONResponse({"error": "invalid_grant"}, 400)
        client = query["client_id"]
        access = self.token(aud=query.get("resource", "elsewhere"), client_id=client)
        about = {"aud": client, "nonce": query.get("nonce"), "scope": None, "client_id": None}
        identity = self.token(header={"typ": "JWT"}, **{**about, **self.lies})
        return JSONResponse(
            {
                "access_token": access,
                "token_type": "Bearer",
                "expires_in": 300,
                "id_token": identity,
            }
        )

    async def link(self, request: Request) -> Response:
        """Return a page of another site with a link to the address in the parameter `to`."""
        where = escape(request.query_params["to"])
        return HTMLResponse(f'<!doctype html><title>Elsewhere</title><a href="{where}">There</a>')

    async def register(self, request: Request) -> Response:
        wanted = await request.json()
        return JSONResponse({**wanted, "client_id": secrets.token_hex(8)}, 201)


@asynccontextmanager
async def fake_issuer() -> AsyncIterator[FakeIssuer]:
    issuer = FakeIssuer()
    app = Starlette(
        routes=[
            Route("/.well-known/{name}", issuer.complete),
            Route("/jwks", issuer.complete),
            Route("/authorize", issuer.authorize),
            Route("/token", issuer.redeem, methods=["POST"]),
            Route("/link", issuer.link),
            Route("/register", issuer.register, methods=["POST"]),
        ]
    )
    async with serve_in_background(app, listen("127.0.0.1", 0)) as address:
        issuer.url = address
        yield issuer
