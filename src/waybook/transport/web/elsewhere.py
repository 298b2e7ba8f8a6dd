"""What browsers are told, and tell us, so that pages of other sites get nothing out of ours.

Browsers say where a request comes from, in headers no page can write. What the page of another
site asks for in the background, embeds or sends here is refused; a link that a person follows is
let through. And every answer says that it is for our own pages, to be taken for nothing but what
it says it is, and shown in no frame.
"""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from waybook.transport.web.guards import header_values
from waybook.transport.web.replies import error_response

#: Of a page of ours; or of nobody's page: an address that was typed in.
SAME_SITE: Final = frozenset({"same-origin", "none"})
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
#: What every answer says that says nothing else.
SECURITY_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def reject_cross_site(app: ASGIApp) -> ASGIApp:
    """Refuse (403) what a browser asks for on behalf of another site's page."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_same_site(scope):
            reply = error_response(
                403, "FORBIDDEN", "Requests of other sites' pages are not accepted."
            )
            await reply(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


def is_same_site(scope: Scope) -> bool:
    """Whether no browser says that another page asks; following a link is a person's own deed."""
    if set(header_values(scope, b"sec-fetch-site")) <= SAME_SITE:
        return True
    return (
        scope["method"] in SAFE_METHODS
        and header_values(scope, b"sec-fetch-mode") == ["navigate"]
        and header_values(scope, b"sec-fetch-dest") == ["document"]
    )


def add_security_headers(app: ASGIApp) -> ASGIApp:
    """Have every answer, refusals included, say whom it is for and how it is to be taken."""
    said = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [(name, value) for name, value in said.items() if name not in known]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        await app(scope, receive, tell if scope["type"] == "http" else send)

    return guarded
