"""Fixtures for a real browser on real pages, over a real database."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from browser.site import Site, a_site
from worlds import World

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
#: Makes no outside requests, and needs no permissions that tests lack.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            raise AssertionError("the pages cannot be tested: there is no Chromium")
        pytest.skip("NOT CHECKED: there is no Chromium here")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield launched
        await launched.close()


@pytest.fixture
def world(alone: World) -> World:
    """Return a world on one server only: pages do not depend on the server version."""
    return alone


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    async with a_site(world) as made:
        yield made


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1280, "height": 900})
    yield made
    await made.close()


@pytest.fixture
async def page(context: BrowserContext, site: Site) -> AsyncIterator[Page]:
    """Yield a tab; any error in it fails the test."""
    tab = await context.new_page()
    site.watch(tab)
    yield tab
    assert site.faults == []
