"""Fixtures for tests with a real browser, served pages and a real database.

All tests here run on one event loop, so that a pytest worker starts Chromium only once; a start
takes longer than most of the tests. Each test has an org, and a browser context with cookies, of
its own.
"""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

import missing_programs
from browser.served_site import Site, serve_site
from org_env import OrgEnv, make_env, open_owner
from patience import NOTICE_SECONDS
from postgres_servers import Server, ServerDatabase, new_database

#: The headless shell comes first, because it needs half the CPU time of the full browser.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
#: Options of Chromium that turn off background requests, and features that need permissions.
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


expect.set_options(timeout=1000 * NOTICE_SECONDS)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Let all tests of this folder run on the event loop on which the browser runs."""
    module: pytest.Module = pytest.Module.from_parent(parent, path=module_path)
    module.add_marker(pytest.mark.asyncio(loop_scope="session"))
    return module


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    if CHROMIUM is None:
        missing_programs.CHROMIUM.skip(f"none of {', '.join(BROWSERS)} is on the PATH")
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield launched
        await launched.close()


@pytest.fixture(scope="session")
def place(eighteen: Server) -> Iterator[ServerDatabase]:
    """Yield a database on PostgreSQL 18; pages do not depend on the version."""
    with new_database(eighteen) as made, open_owner(made):
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def world(place: ServerDatabase) -> AsyncIterator[OrgEnv]:
    async with make_env(place) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def site(world: OrgEnv) -> AsyncIterator[Site]:
    async with serve_site(world) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    made = await browser.new_context(viewport={"width": 1280, "height": 900})
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext, site: Site) -> AsyncIterator[Page]:
    """Yield a browser tab; at the end, fail the test if the tab had any error."""
    tab = await context.new_page()
    site.watch(tab)
    yield tab
    assert site.faults == []


@pytest_asyncio.fixture(
    loop_scope="session", params=[True, False], ids=["scripted", "without JavaScript"]
)
async def tab(browser: Browser, site: Site, request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    context = await browser.new_context(java_script_enabled=bool(request.param))
    page = await context.new_page()
    site.watch(page)
    yield page
    await context.close()
    assert site.faults == []
