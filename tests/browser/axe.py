"""Accessibility checks with axe-core, pinned by its lock file, in both themes."""

import os
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Page

from node_packages import Unreachable, install

PACKAGES: Final = Path(__file__).parent / "axe_core"


@cache
def axe() -> str:
    """Return the source of axe-core; skip the test if it is not available."""
    try:
        folder = install(PACKAGES, "axe")
    except Unreachable as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NOT CHECKED: axe-core cannot be installed. {error}")
    return (folder / "node_modules/axe-core/axe.min.js").read_text("utf-8")


async def accessible(page: Page) -> None:
    """Check the current page against every rule of axe-core, in light and dark mode."""
    for theme in ("light", "dark"):
        await page.emulate_media(color_scheme=theme)
        problems = await violations(page)
        assert problems == [], f"in the {theme} theme: {problems}"
    await page.emulate_media(color_scheme="light")


async def violations(page: Page) -> list[str]:
    """Return the axe-core violations, each with the rule and its location."""
    await page.evaluate(axe())
    report: dict[str, Any] = await page.evaluate("axe.run(document)")
    assert report["passes"], "nothing was looked at"
    return [
        f"{rule['id']}: {rule['help']} at {[node['target'] for node in rule['nodes']][:5]}"
        for rule in report["violations"]
    ]
