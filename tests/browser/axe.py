"""Accessibility checks with axe-core in the light and dark themes."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Page

from missing_programs import NODE_PACKAGES
from node_packages import Unreachable, install

PACKAGES: Final = Path(__file__).parent / "axe_core"
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
#: Options with which axe-core checks every rule, and describes nodes only if they violate a rule.
EVERY_RULE: Final = {"resultTypes": ["violations"]}
#: Options with which axe-core checks only the rules about colors, because the themes differ only in
#: their colors.
COLORS_ONLY: Final = {
    **EVERY_RULE,
    "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]},
}


@cache
def axe() -> str:
    """Return the JavaScript source of axe-core; skip the test if it is not installed."""
    try:
        folder = install(PACKAGES, "axe")
    except Unreachable as error:
        NODE_PACKAGES.skip(str(error))
    return (folder / "node_modules/axe-core/axe.min.js").read_text("utf-8")


async def accessible(page: Page) -> None:
    """Check the page: all axe-core rules in the light theme, color rules in the dark theme."""
    await page.evaluate(axe())
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)
        problems = await violations(page, EVERY_RULE if theme == "light" else COLORS_ONLY)
        assert problems == [], f"in the {theme} theme: {problems}"
    await page.emulate_media(color_scheme="light")


async def violations(page: Page, options: Mapping[str, object]) -> list[str]:
    """Return the axe-core violations, each with the rule and its location."""
    report: dict[str, Any] = await page.evaluate(
        "async options => {"
        " const {passes, violations} = await axe.run(document, options);"
        " return {checked: passes.length + violations.length, violations}; }",
        options,
    )
    assert report["checked"], "nothing was looked at"
    return [
        f"{rule['id']}: {rule['help']} at {[node['target'] for node in rule['nodes']][:5]}"
        for rule in report["violations"]
    ]
