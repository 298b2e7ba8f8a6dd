"""Tests of the accessibility check that the browser tests use."""

import pytest
from playwright.async_api import Page

from browser.axe import accessible
from browser.served_site import Site


async def test_accessibility_check_reports_low_contrast_and_links_without_names(
    page: Page, site: Site
) -> None:
    rows = "".join(f"<li>Row {number}</li>" for number in range(40))
    await page.goto(site.address)
    await page.evaluate(
        "list => document.querySelector('main').insertAdjacentHTML('beforeend', list)",
        f"<ul>{rows}</ul>",
    )
    await accessible(page)
    await page.evaluate("document.querySelectorAll('main li')[30].style.color = '#eee'")
    with pytest.raises(AssertionError, match=r"in the light theme: .*color-contrast"):
        await accessible(page)
    await page.evaluate("document.querySelectorAll('main li')[30].style.color = ''")
    await page.evaluate(
        "const sheet = new CSSStyleSheet();"
        "sheet.replaceSync('@media (prefers-color-scheme:dark){*{color:#101319!important}}');"
        "document.adoptedStyleSheets = [sheet]"
    )
    with pytest.raises(AssertionError, match=r"in the dark theme: .*color-contrast"):
        await accessible(page)
    await page.evaluate("document.querySelector('nav a').innerText = ''")
    with pytest.raises(AssertionError, match="link-name"):
        await accessible(page)
