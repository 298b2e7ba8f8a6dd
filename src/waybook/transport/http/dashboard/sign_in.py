"""Sign-in page: with an API token or through the org's identity provider.

The page does not say why a token is invalid, because only an attacker would benefit.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from waybook.app.accounts.authentication import (
    authenticate_session,
    database_time,
    end_session,
    start_by_issuer,
    start_by_token,
)
from waybook.app.request.caller import Caller
from waybook.app.request.services import Services
from waybook.errors import Forbidden, RateLimited, Unauthenticated, WaybookError
from waybook.integrations.config import Proxies
from waybook.integrations.oidc_login import (
    IssuerClient,
    attempt_from_cookie,
    authorization_url,
    exchange_code,
    new_attempt,
)
from waybook.transport.http.authentication import (
    FLOW,
    SESSION,
    delete_cookie,
    read_cookie,
    set_flow_cookie,
    set_session_cookie,
)
from waybook.transport.http.html.layout import (
    read_form,
    redirect_page,
    render_form,
    safe_return_path,
)
from waybook.transport.http.rate_limits import FailedCredentials, LoginThrottle, client_address_of
from waybook.transport.http.responses import http_status

SIGN_IN_PATH: Final = "/sign-in"
_CALLBACK_PATH: Final = "/sign-in/callback"
_UNKNOWN_CREDENTIAL_MESSAGE: Final = (
    "Invalid or expired token. Ask your administrator for a new one."
)
_SIGN_IN_FAILED_MESSAGE: Final = (
    "Sign-in failed: your account is not registered here, or the attempt timed out. "
    "Try again or contact your administrator."
)
_FORM_EXPIRED_MESSAGE: Final = "This form has expired. Please try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPage:
    services: Services
    base_url: str
    #: Identity provider at which people can sign in instead of using a token.
    issuer: IssuerClient | None = None
    attempts: LoginThrottle = field(default_factory=LoginThrottle)
    failures: FailedCredentials = field(default_factory=FailedCredentials)
    proxies: Proxies = ()

    def routes(self) -> list[Route]:
        by_issuer = [
            Route(f"{SIGN_IN_PATH}/oidc", self.redirect_to_issuer),
            Route(_CALLBACK_PATH, self.callback),
        ]
        return [
            Route(SIGN_IN_PATH, self.form, methods=["GET"]),
            Route(SIGN_IN_PATH, self.by_token, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            *(by_issuer if self._has_issuer else ()),
        ]

    async def browser(self, request: Request) -> Caller | None:
        """Return the user who is signed in with this browser, or None."""
        try:
            return await self.signed_in(request)
        except Unauthenticated:
            return None

    async def signed_in(self, request: Request) -> Caller:
        secret = read_cookie(request, SESSION)
        if not secret:
            raise Unauthenticated
        # Open pages request `/live` by themselves, so this does not count as activity of the user.
        caller, request.state.person = await authenticate_session(
            self.services, secret, notes=request.url.path != "/live"
        )
        return caller

    async def form(self, request: Request) -> Response:
        then = safe_return_path(request.query_params.get("then"), "/")
        address, secret = client_address_of(request, self.proxies), read_cookie(request, SESSION)
        if secret:
            # An unknown session cookie counts as an invalid credential.
            with suppress(RateLimited, Unauthenticated), self.failures.lookup(address, secret):
                await self.signed_in(request)
                return RedirectResponse(then, HTTPStatus.SEE_OTHER)
        return self._page(request, then)

    async def by_token(self, request: Request) -> Response:
        try:
            fields = await read_form(request)
        except Forbidden:
            return self._page(request, "/", _FORM_EXPIRED_MESSAGE, HTTPStatus.FORBIDDEN)
        then = safe_return_path(fields.get("then"), "/")
        if refused := self._too_often(request, then):
            return refused
        key = fields.get("key")
        try:
            given = key.strip() if isinstance(key, str) else ""
            secret = await start_by_token(self.services, given)
        except Unauthenticated:
            return self._page(request, then, _UNKNOWN_CREDENTIAL_MESSAGE, HTTPStatus.FORBIDDEN)
        except WaybookError as error:
            return self._page(request, then, error.message, http_status(error.code))
        return await self._let_in(request, RedirectResponse(then, HTTPStatus.SEE_OTHER), secret)

    async def sign_out(self, request: Request) -> Response:
        try:
            await read_form(request)
        except Forbidden:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        await end_session(self.services, read_cookie(request, SESSION))
        reply = RedirectResponse(SIGN_IN_PATH, HTTPStatus.SEE_OTHER)
        delete_cookie(request, reply, SESSION)
        if request.url.scheme == "https":
            # This header makes the browser delete cached pages, but only over https.
            reply.headers["clear-site-data"] = '"cache"'
        return reply

    @property
    def _has_issuer(self) -> bool:
        return self.issuer is not None and self.issuer.settings.client_id is not None

    async def redirect_to_issuer(self, request: Request) -> Response:
        then = safe_return_path(request.query_params.get("then"), "/")
        if self.issuer is None:
            raise Unauthenticated
        flow = new_attempt(then)
        try:
            url = await authorization_url(self.issuer, flow, self._back)
        except WaybookError as error:
            return self._page(request, then, error.message, HTTPStatus.SERVICE_UNAVAILABLE)
        reply = RedirectResponse(url, HTTPStatus.SEE_OTHER, {"cache-control": "no-store"})
        set_flow_cookie(request, reply, flow.to_cookie())
        return reply

    async def callback(self, request: Request) -> Response:
        flow = attempt_from_cookie(read_cookie(request, FLOW))
        if flow is None or self.issuer is None:
            return self._page(request, "/", _SIGN_IN_FAILED_MESSAGE, HTTPStatus.FORBIDDEN)
        then, returned = safe_return_path(flow.return_to, "/"), dict(request.query_params)
        if refused := self._too_often(request, then):
            return refused
        try:
            now = await database_time(self.services)
            claims = await exchange_code(self.issuer, flow, returned, back=self._back, now=now)
            secret = await start_by_issuer(self.services, self.issuer, claims)
        except Forbidden:
            reply = self._page(request, then, _SIGN_IN_FAILED_MESSAGE, HTTPStatus.FORBIDDEN)
        except WaybookError as error:
            reply = self._page(request, then, error.message, http_status(error.code))
        else:
            reply = await self._let_in(request, redirect_page(request, then), secret)
        delete_cookie(request, reply, FLOW)
        return reply

    @property
    def _back(self) -> str:
        return f"{self.base_url}{_CALLBACK_PATH}"

    async def _let_in(self, request: Request, reply: Response, secret: str) -> Response:
        await end_session(self.services, read_cookie(request, SESSION))
        self.failures.exempt(secret)
        set_session_cookie(request, reply, secret)
        return reply

    def _too_often(self, request: Request, then: str) -> Response | None:
        wait = self.attempts.retry_after(client_address_of(request, self.proxies))
        if not wait:
            return None
        message = f"Too many attempts. Try again in {wait} seconds."
        reply = self._page(request, then, message, HTTPStatus.TOO_MANY_REQUESTS)
        reply.headers["retry-after"] = str(wait)
        return reply

    def _page(
        self, request: Request, then: str, error: str = "", status: int = HTTPStatus.OK
    ) -> Response:
        oidc_url = f"{SIGN_IN_PATH}/oidc?then={quote(then, safe='')}" if self._has_issuer else None
        shown = {"then": then, "fault": error, "elsewhere": oidc_url}
        return render_form(request, "sign_in", shown, status_code=status)
