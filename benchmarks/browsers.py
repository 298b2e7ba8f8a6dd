"""Search for an installed Chromium, which some benchmarks use as browser."""

import shutil

#: Program names, preferred one first: the headless shell needs half the CPU time of the browser.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)
