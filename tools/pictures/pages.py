"""Take the screenshots of the dashboard for the documentation: docs/pictures/*.png.

A real server serves the plans of `stories.py` from a temporary database, and Chromium shows the
pages: `make harness NAME=pictures`.
"""

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Page, sync_playwright

from tools.pictures import stories
from tools.pictures.palette import reduce_colors
from waybook.cli.demo.environment import temporary_database
from waybook.cli.runtime import open_app
from waybook.settings import Settings

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "pictures"
BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser")
WIDTH: Final = 1280
MAX_BYTES: Final = 150_000


class Picture(NamedTuple):
    """Screenshot of a dashboard page, with the name of its file, and with the part to show."""

    name: str
    path: str
    height: int
    #: CSS selector for the element at the top of the screenshot; by default the top of the page.
    top: str = ""


def pictures(ids: dict[str, str]) -> list[Picture]:
    plans = {name: f"/plans/{plan}" for name, plan in ids.items()}
    return [
        Picture("overview-page", "/", 900),
        Picture("plan-page", plans[stories.REFUNDS], 960),
        Picture("run-page", f"/runs/{ids['run']}", 860),
        Picture("long-plan", plans[stories.WAREHOUSE], 860),
        Picture("shared-plan", plans[stories.LICENSES], 1142),
        Picture("inbox-page", "/inbox", 900),
        Picture("audit-page", f"/audit?subject={ids[stories.REFUNDS]}", 860),
        Picture("time-slider", f"{plans[stories.REFUNDS]}/history?seq=8", 860),
    ]


async def fill(data_dir: Path) -> dict[str, str]:
    async with open_app(Settings(data_dir=data_dir)) as runtime:
        return await stories.play(runtime.app)


@contextmanager
def serve(data_dir: Path) -> Iterator[str]:
    """Run `waybook serve` on a free port; yield its address."""
    command = [sys.executable, "-m", "waybook", "serve", "--port", "0", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            for line in server.stdout:
                if match := re.search(r"http://127\.0\.0\.1:\d+", line.decode()):
                    yield match[0]
                    break
        finally:
            server.terminate()


def take(page: Page, address: str, picture: Picture) -> None:
    page.goto(f"{address}{picture.path}")
    page.wait_for_load_state("load")
    shoot(page, picture)


def shoot(page: Page, picture: Picture) -> None:
    """Save a screenshot of a part of the page, without empty space at the end."""
    y = page.locator(picture.top).first.evaluate(OFFSET) if picture.top else 0
    total = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": y, "width": WIDTH, "height": min(picture.height, total - y)}
    target = FOLDER / f"{picture.name}.png"
    shown = page.screenshot(clip=clip, full_page=True)  # type: ignore[arg-type]  # a clip
    page.goto("about:blank")
    small = reduce_colors(page, shown)
    assert len(small) <= MAX_BYTES, (
        f"{target.name} has {len(small)} bytes; the limit is {MAX_BYTES}"
    )
    target.write_bytes(small)
    sys.stdout.write(f"written  {target.name}\n")


OFFSET: Final = "element => element.getBoundingClientRect().top + window.scrollY - 16"


def share(page: Page, address: str, plan: str) -> None:
    """Share a snapshot of the plan by a link, open it, and take a screenshot."""
    page.goto(f"{address}/plans/{plan}/share")
    page.get_by_role("button", name="Create link").click()
    page.get_by_role("link", name="Open snapshot").click()
    shoot(page, Picture("snapshot-page", "", 860))


def main() -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert browser, "the pictures need Chromium"
    with temporary_database() as data_dir:
        ids = asyncio.run(fill(data_dir))
        with serve(data_dir) as address, sync_playwright() as playwright:
            options = ["--no-sandbox", "--disable-gpu", "--disable-lcd-text"]
            chromium = playwright.chromium.launch(executable_path=browser, args=options)
            page = chromium.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
            for picture in pictures(ids):
                take(page, address, picture)
            share(page, address, ids[stories.REFUNDS])
            chromium.close()


if __name__ == "__main__":
    main()
