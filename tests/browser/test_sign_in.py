"""Sign-in with a token and with an identity provider, with and without JavaScript."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from auth_env import make_token
from browser.axe import accessible
from browser.pictures import take_picture
from browser.served_site import Site
from org_env import OrgEnv
from sign_in_env import Team, serve_team
from waybook.core.decision_context import ReviewPolicy, Scope

#: Start of the browser's message about a response with an error status.
REFUSED = "Failed to load resource"


@dataclass
class SignInServer:
    """Test server with its address, where no user has signed in."""

    team: Team
    address: str

    @property
    def world(self) -> OrgEnv:
        return self.team.world


@pytest_asyncio.fixture(loop_scope="session")
async def server(world: OrgEnv) -> AsyncIterator[SignInServer]:
    async with serve_team(world) as (team, address):
        yield SignInServer(team, address)


@pytest_asyncio.fixture(
    loop_scope="session", params=[True, False], ids=["scripted", "without JavaScript"]
)
async def context(
    browser: Browser, request: pytest.FixtureRequest
) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(java_script_enabled=bool(request.param))
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tab(context: BrowserContext, server: SignInServer) -> AsyncIterator[Page]:
    page, watched = await context.new_page(), Site(server.address, server.world)
    watched.watch(page)
    yield page
    assert [fault for fault in watched.faults if REFUSED not in fault] == []


async def sign_in(tab: Page, secret: str) -> None:
    await tab.get_by_label("Token").fill(secret)
    await tab.get_by_role("button", name="Sign in").click()


def settings_menu(tab: Page) -> Locator:
    """Return what opens the menu with "Sign out": the user's name or, on phones, "More"."""
    more = tab.get_by_role("button", name="More", exact=True)
    return more.or_(tab.locator("aside .foot summary")).filter(visible=True)


async def test_back_button_after_sign_out_shows_sign_in_page(
    tab: Page, server: SignInServer
) -> None:
    world, agent = server.world, server.world.agent
    await world.set_policy(ReviewPolicy.HUMAN)
    pat = await make_token(agent, "pat", scopes=(Scope.REVIEW,))
    plan = await agent.plan(1, name="Rivers of the south")
    taken = await agent.take(plan)
    await agent.review(taken, summary="Nile or Amazon?")
    await tab.goto(f"{server.address}/inbox")
    await expect(tab).to_have_title("Sign in · Waybook")
    await sign_in(tab, "wb_" + 40 * "x")
    await expect(tab.get_by_role("alert")).to_contain_text("Invalid or expired token")
    await expect(tab.get_by_label("Token")).to_have_value("")
    await sign_in(tab, pat.secret)
    await expect(tab).to_have_url(f"{server.address}/inbox")
    await expect(tab.locator("aside").get_by_text("pat", exact=True)).to_be_visible()
    await expect(tab.get_by_text("Next server")).to_have_count(0)
    await tab.get_by_role("button", name="Approve").click()
    done = tab.get_by_text("Done: pat approved").or_(tab.get_by_text("Nothing is waiting for you"))
    await expect(done).to_be_visible()
    assert (await agent.status(plan))["status"] == "completed"
    await tab.goto(f"{server.address}/?state=all")
    await expect(tab.get_by_text("Rivers of the south")).to_be_visible()
    await expect(tab.get_by_text("Next server")).to_have_count(0)
    await settings_menu(tab).click()
    await tab.get_by_role("button", name="Sign out").click()
    await expect(tab).to_have_title("Sign in · Waybook")
    await tab.go_back()
    await expect(tab).to_have_title("Sign in · Waybook")
    await expect(tab.get_by_text("Rivers of the south")).to_have_count(0)


async def test_sign_in_with_identity_provider_returns_to_requested_page(
    tab: Page, server: SignInServer
) -> None:
    """The browser comes back from another site, so its first request lacks the session cookie."""
    known = {"email": "ann@example.org", "email_verified": True}
    server.team.there.person |= known
    plan = await server.world.agent.plan(1, name="Rivers of the south")
    await tab.goto(f"{server.address}/plans/{plan['planId']}")
    await tab.get_by_role("link", name="Sign in with your organization").click()
    await expect(tab).to_have_url(f"{server.address}/plans/{plan['planId']}")
    await expect(tab.locator("aside").get_by_text("ann@example.org", exact=True)).to_be_visible()
    await expect(tab.locator("aside").get_by_text("org-")).to_be_visible()
    # After a click on another site, the browser sends no session cookie. The answer is a page that
    # loads itself again, now with the cookie.
    elsewhere = server.team.there.url.replace("127.0.0.1", "localhost")
    await tab.goto(f"{elsewhere}/link?to={server.address}/inbox")
    await tab.get_by_role("link", name="There").click()
    await expect(tab).to_have_url(f"{server.address}/inbox")
    await expect(tab.locator("aside").get_by_text("ann@example.org", exact=True)).to_be_visible()
    await expect(tab.locator("aside").get_by_text("org-")).to_be_visible()


async def test_sign_in_page_is_accessible(browser: Browser, server: SignInServer) -> None:
    pat = await make_token(server.world.agent, "pat", scopes=(Scope.REVIEW,))
    for width in (1280, 390):
        context = await browser.new_context(viewport={"width": width, "height": 800})
        page = await context.new_page()
        await page.goto(server.address)
        await accessible(page)
        await take_picture(page, f"sign-in-dark-{width}", "dark", full_page=False)
        await take_picture(page, f"sign-in-light-{width}", "light", full_page=False)
        await sign_in(page, "wb_wrong")
        await expect(page.get_by_role("alert")).to_be_visible()
        await accessible(page)
        await take_picture(page, f"sign-in-refused-{width}", "dark", full_page=False)
        await sign_in(page, pat.secret)
        await settings_menu(page).click()
        await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        await accessible(page)
        await take_picture(page, f"signed-in-{width}", "light", full_page=False)
        await context.close()


async def test_page_header_of_signed_in_user_fits_in_one_row(
    tab: Page, server: SignInServer
) -> None:
    pat = await make_token(server.world.agent, "pat.of.the.research.team", scopes=(Scope.REVIEW,))
    await tab.goto(server.address)
    await sign_in(tab, pat.secret)
    for width in (1440, 1280, 1101, 1024, 800, 390):
        await tab.set_viewport_size({"width": width, "height": 800})
        header = await tab.locator("header.top").bounding_box()
        assert header is not None
        assert header["height"] <= 64, width
        await settings_menu(tab).click()
        await expect(tab.get_by_role("button", name="Sign out")).to_be_in_viewport()
        # On a phone, the open menu covers its button.
        await (tab.keyboard.press("Escape") if width <= 820 else settings_menu(tab).click())
        wide = await tab.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, width
