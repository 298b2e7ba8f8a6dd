"""Browser for benchmarks: Chromium, if it is installed, as for the tests of pages."""

import shutil

#: Names of the program; the headless shell takes half the CPU time of the whole browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


def find_chromium() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)
