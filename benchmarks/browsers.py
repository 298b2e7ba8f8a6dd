"""Search for an installed Chromium, the browser that some benchmarks need."""

import shutil

#: Names of the program. The headless shell comes first, because it needs half the CPU time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser")


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)
