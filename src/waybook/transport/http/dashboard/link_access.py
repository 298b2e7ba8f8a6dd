"""Finds a link by its secret, and limits failures per client address."""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from waybook.app.accounts.links import AccessLink, LinkKind, find_link
from waybook.app.dispatcher import Dispatcher
from waybook.errors import NotFound, Unauthenticated
from waybook.transport.http.client_address import TrustedProxies, client_address_of
from waybook.transport.http.failed_credentials import FailedCredentials
from waybook.transport.http.html.forms import csrf_token, mask_token, set_csrf_cookie
from waybook.transport.http.html.layout import render_template

#: Search engines must not index pages that a link opens.
LINK_HEADERS: Final = {"x-robots-tag": "noindex, nofollow, noarchive"}


@dataclass(frozen=True, slots=True)
class LinkAccess:
    dispatcher: Dispatcher
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    failures: FailedCredentials = field(default_factory=FailedCredentials)

    async def find(self, request: Request, kind: LinkKind) -> AccessLink:
        """Return the link whose secret is in the path, even if the link is expired or revoked.

        Raises:
            NotFound: no link has this secret.
            RateLimited: too many unknown links were requested from the client's address.
        """
        secret = request.path_params["snapshot" if kind is LinkKind.SNAPSHOT else "secret"]
        try:
            with self.failures.lookup(client_address_of(request, self.proxies), secret):
                return await find_link(self.dispatcher.services, secret, kind)
        except Unauthenticated:
            raise NotFound("there is no such link; it may be incomplete") from None


def reason_unusable(link: AccessLink) -> str | None:
    if link.is_revoked:
        return "This link was revoked."
    if link.is_expired:
        return "This link has expired."
    return None


def render_link_page(
    request: Request, name: str, link: AccessLink, shown: dict[str, object], status: int
) -> Response:
    reason, token = reason_unusable(link), csrf_token(request)
    values = {**shown, "link": link, "reason": reason, "token": mask_token(token)}
    code = HTTPStatus.GONE if reason else status
    reply = render_template(request, name, values, status_code=code)
    set_csrf_cookie(request, reply, token)
    return mark_private(reply)


def mark_private(reply: Response) -> Response:
    reply.headers.update(LINK_HEADERS)
    return reply
