"""Where people sign in: with a token, or where their org has its accounts.

What is wrong with a token is not told, since whoever has a good one need not know, and whoever
guesses should not.
"""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from waybook.endpoints.code_flow import new_flow, read_flow, signed_in, way_to_sign_in
from waybook.endpoints.issued import SignIns
from waybook.errors import Forbidden, RateLimited, Unidentified, WaybookError
from waybook.transport.web.attempts import Attempts
from waybook.transport.web.cookies import FLOW, SESSION, forget, keep_flow, keep_session, kept
from waybook.transport.web.dashboard.back import own_path
from waybook.transport.web.dashboard.forms import sent, token_for, with_token
from waybook.transport.web.dashboard.frame import page
from waybook.transport.web.dashboard.going_on import going_on
from waybook.transport.web.failed_credentials import FailedCredentials
from waybook.transport.web.proxies import Proxies, origin_of
from waybook.transport.web.reading import status_of
from waybook.usecases.by_issuer import time_there
from waybook.usecases.exchange import Caller
from waybook.usecases.house import House
from waybook.usecases.web_sessions import by_session, end, start_by_issuer, start_by_token

HERE: Final = "/sign-in"
CALLBACK: Final = "/sign-in/callback"
UNKNOWN: Final = (
    "This token does not let you in. It may be mistyped, or count no more; whoever gave it to you "
    "can make you a new one."
)
NOT_LET_IN: Final = (
    "Signing in did not work: your account is not known here, or the attempt took too long. Try "
    "again, or ask whoever looks after this place."
)
OUTDATED: Final = "The page had been open for long. Please try again."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    house: House
    #: Where this server is reached.
    base_url: str
    #: Whose sign-in counts beside tokens; people can use it if it knows our pages.
    issuer: SignIns | None = None
    attempts: Attempts = field(default_factory=Attempts)
    failures: FailedCredentials = field(default_factory=FailedCredentials)
    #: Who is believed to say for whom they ask.
    proxies: Proxies = field(default_factory=Proxies)

    def routes(self) -> list[Route]:
        """Where all this is."""
        there = [
            Route(HERE, self.form, methods=["GET"]),
            Route(HERE, self.by_token, methods=["POST"]),
            Route("/sign-out", self.out, methods=["POST"]),
        ]
        if not self._has_issuer:
            return there
        return [*there, Route(f"{HERE}/oidc", self.leave), Route(CALLBACK, self.come_back)]

    async def browser(self, request: Request) -> Caller | None:
        """Whoever sits at the browser, if it has signed in; the frame of pages shows their name."""
        secret = kept(request, SESSION)
        if not secret:
            return None
        try:
            # A page that merely lies open is no sign of somebody.
            known = await by_session(self.house, secret, notes=request.url.path != "/live")
        except Unidentified:
            return None
        request.state.person = known.person
        return known.caller

    # With a token

    async def form(self, request: Request) -> Response:
        """The page; whoever has signed in goes on."""
        then = own_path(request.query_params.get("then"), "/")
        if await self._is_signed_in(request):
            return RedirectResponse(then, HTTPStatus.SEE_OTHER)
        return self._page(request, then)

    async def _is_signed_in(self, request: Request) -> bool:
        """Return whether the browser has a valid session; unknown ones count as failures."""
        address, secret = origin_of(request, self.proxies), kept(request, SESSION)
        if not secret:
            return False
        try:
            with self.failures.lookup(address, secret):
                await self._session(request)
        except (RateLimited, Unidentified):
            return False  # the form needs no session
        return True

    async def _session(self, request: Request) -> None:
        """Raise Unidentified unless the browser has a valid session."""
        if await self.browser(request) is None:
            raise Unidentified

    async def by_token(self, request: Request) -> Response:
        """Sign in with a token."""
        try:
            fields = await sent(request)
        except Forbidden:
            return self._page(request, "/", OUTDATED, HTTPStatus.FORBIDDEN)
        then = own_path(fields.get("then"), "/")
        if refused := self._too_often(request, then):
            return refused
        key = fields.get("key")
        try:
            started = await start_by_token(self.house, key.strip() if isinstance(key, str) else "")
        except Unidentified:
            return self._page(request, then, UNKNOWN, HTTPStatus.FORBIDDEN)
        except WaybookError as fault:
            return self._page(request, then, fault.message, status_of(fault.code))
        reply = RedirectResponse(then, HTTPStatus.SEE_OTHER)
        await self._let_in(request, reply, started.secret)
        return reply

    async def out(self, request: Request) -> Response:
        """Sign out."""
        try:
            await sent(request)
        except Forbidden:
            return RedirectResponse("/", HTTPStatus.SEE_OTHER)
        await end(self.house, kept(request, SESSION))
        reply = RedirectResponse(HERE, HTTPStatus.SEE_OTHER)
        forget(request, reply, SESSION)
        if request.url.scheme == "https":
            # What the browser remembers of pages; it listens to this over https alone.
            reply.headers["clear-site-data"] = '"cache"'
        return reply

    # At an issuer

    @property
    def _has_issuer(self) -> bool:
        return self.issuer is not None and self.issuer.settings.client_id is not None

    async def leave(self, request: Request) -> Response:
        """Send the browser to the issuer."""
        then = own_path(request.query_params.get("then"), "/")
        if self.issuer is None:
            raise Unidentified
        flow = new_flow(then)
        try:
            way = await way_to_sign_in(self.issuer, flow, self._back)
        except WaybookError as fault:
            return self._page(request, then, fault.message, HTTPStatus.SERVICE_UNAVAILABLE)
        reply = RedirectResponse(way, HTTPStatus.SEE_OTHER, {"cache-control": "no-store"})
        keep_flow(request, reply, flow.kept())
        return reply

    async def come_back(self, request: Request) -> Response:
        """Let in whoever comes back from there, if they were sent by us and are known."""
        flow = read_flow(kept(request, FLOW))
        if flow is None or self.issuer is None:
            return self._page(request, "/", NOT_LET_IN, HTTPStatus.FORBIDDEN)
        then, returned = own_path(flow.then, "/"), dict(request.query_params)
        if refused := self._too_often(request, then):
            return refused
        try:
            now = await time_there(self.house)
            claims = await signed_in(self.issuer, flow, returned, back=self._back, now=now)
            started = await start_by_issuer(self.house, self.issuer, claims)
        except Forbidden:
            reply = self._page(request, then, NOT_LET_IN, HTTPStatus.FORBIDDEN)
        except WaybookError as fault:
            reply = self._page(request, then, fault.message, status_of(fault.code))
        else:
            reply = going_on(request, then)
            await self._let_in(request, reply, started.secret)
        forget(request, reply, FLOW)
        return reply

    @property
    def _back(self) -> str:
        return f"{self.base_url}{CALLBACK}"

    # Both

    async def _let_in(self, request: Request, reply: Response, secret: str) -> None:
        """Give the browser its new session; what it had before ends."""
        await end(self.house, kept(request, SESSION))
        self.failures.exempt(secret)
        keep_session(request, reply, secret)

    def _too_often(self, request: Request, then: str) -> Response | None:
        wait = self.attempts.wait(origin_of(request, self.proxies))
        if not wait:
            return None
        told = f"Too many attempts. Try again in {wait} seconds."
        reply = self._page(request, then, told, HTTPStatus.TOO_MANY_REQUESTS)
        reply.headers["retry-after"] = str(wait)
        return reply

    def _page(
        self, request: Request, then: str, fault: str = "", status: int = HTTPStatus.OK
    ) -> Response:
        token = token_for(request)
        there = f"{HERE}/oidc?then={quote(then, safe='')}" if self._has_issuer else None
        shown = {"token": token, "then": then, "fault": fault, "elsewhere": there}
        reply = page(request, "sign_in", shown, status_code=status)
        with_token(request, reply, token)
        return reply
