"""Server that shows the dashboard to browser tests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from playwright.async_api import ConsoleMessage, Page
from starlette.requests import Request

from org_env import OrgEnv
from transport.fake_dispatcher import make_app, make_server
from waybook.app.request.caller import Caller
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.core.decision_context import Channel
from waybook.store.driver.bus import Bus
from waybook.transport.gateway import ToolGateway
from waybook.transport.http.dashboard.routes import dashboard_routes
from waybook.transport.http.requests import ReadApi
from waybook.transport.http.server import listen, serve_in_background


@dataclass
class Site:
    """Served dashboard, the user who has signed in, and the errors of all browser tabs."""

    address: str
    world: OrgEnv
    user: str = "pat"
    faults: list[str] = field(default_factory=list)

    async def person(self, _: Request | None) -> Caller:
        return replace(self.world.agent.caller, user=self.user, channel=Channel.DASHBOARD)

    def watch(self, page: Page) -> None:
        def heard(message: ConsoleMessage) -> None:
            if message.type == "error":
                self.faults.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))


@asynccontextmanager
async def serve_site(
    world: OrgEnv, port: int = 0, *, is_development: bool = False
) -> AsyncIterator[Site]:
    """Serve the dashboard of the test org with a new event bus, as a new server process would."""
    world.dispatcher.services = replace(world.dispatcher.services, bus=Bus())
    site = Site("", world)

    async def dispatcher() -> ServerDispatcher:
        return world.dispatcher

    server = make_server()
    pages = dashboard_routes(world.dispatcher, site.person, is_development=is_development)
    reading = ReadApi(ToolGateway(dispatcher, site.person))
    app = make_app(server, reading=reading, pages=pages)
    async with serve_in_background(
        app, listen("127.0.0.1", port), world.dispatcher.bus.close
    ) as address:
        site.address = address
        yield site
