"""Accessibility checks by axe-core, in the light and the dark theme."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Page

from missing_programs import NODE_PACKAGES
from node_packages import Unreachable, install

PACKAGES: Final = Path(__file__).parent / "axe_core"
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
COLOR_RULES: Final = ("color-contrast", "link-in-text-block")
#: Options of axe-core: apply all rules except those about colors, and report only violations.
EXCEPT_COLORS: Final = {
    "resultTypes": ["violations"],
    "rules": {rule: {"enabled": False} for rule in COLOR_RULES},
}
COLORS_ONLY: Final = {"resultTypes": ["violations"], "runOnly": list(COLOR_RULES)}
#: Script that finds table rows and list items with the same attributes as an earlier one, except
#: for URLs and texts. They have the same colors, so the color check skips them to save time.
REPEATED: Final = """() => {
  const texts = /^(aria-label|data-at|datetime|for|href|id|name|title|value)$/;
  const look = element => [element.tagName, ...[...element.attributes]
    .filter(({name}) => !texts.test(name)).map(({name, value}) => name + '=' + value)];
  const known = new Set(), repeated = [];
  for (const row of document.querySelectorAll('tr, li')) {
    const within = [...row.querySelectorAll('*')];
    const looks = within.map(part => [...look(part), !part.textContent.trim()]);
    for (let around = row; around; around = around.parentElement) looks.push(look(around));
    const key = JSON.stringify(looks);
    if (known.has(key)) repeated.push(row);
    known.add(key);
  }
  return repeated;
}"""


@cache
def axe() -> str:
    """Return the source of axe-core; skip the test if it is not installed."""
    try:
        folder = install(PACKAGES, "axe")
    except Unreachable as error:
        NODE_PACKAGES.skip(str(error))
    return (folder / "node_modules/axe-core/axe.min.js").read_text("utf-8")


async def accessible(page: Page) -> None:
    """Check the page with axe-core: rules about colors in both themes, all other rules once."""
    await page.evaluate(axe())
    problems = await violations(page, EXCEPT_COLORS)
    assert problems == [], problems
    for theme in THEMES:
        # Without motion, so that no color is checked halfway between the themes.
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        problems = await violations(page, COLORS_ONLY, f"{{exclude: ({REPEATED})()}}")
        assert problems == [], f"in the {theme} theme: {problems}"
    await page.emulate_media(color_scheme="light", reduced_motion="no-preference")


async def violations(
    page: Page, options: Mapping[str, object], context: str = "document"
) -> list[str]:
    report: dict[str, Any] = await page.evaluate(
        "async options => {"
        f" const {{passes, violations}} = await axe.run({context}, options);"
        " return {checked: passes.length + violations.length, violations}; }",
        options,
    )
    assert report["checked"], "nothing was looked at"
    return [
        f"{rule['id']}: {rule['help']} at {[node['target'] for node in rule['nodes']][:5]}"
        for rule in report["violations"]
    ]
