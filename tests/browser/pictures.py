"""Screenshots of pages for people to look at."""

import os
from pathlib import Path
from typing import Literal

from playwright.async_api import Page

FOLDER = "WAYBOOK_PICTURES"


async def take_picture(
    page: Page, name: str, theme: Literal["light", "dark"], *, full_page: bool = True
) -> None:
    """Save a screenshot in the folder that `WAYBOOK_PICTURES` names, if this variable is set."""
    if folder := os.environ.get(FOLDER):
        await page.emulate_media(color_scheme=theme)
        await page.screenshot(full_page=full_page, path=Path(folder) / f"{name}.png")
        await page.emulate_media(color_scheme="light")
