"""Test layers: the pytest marker for each test file, according to its folder."""

from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent

#: Description of each pytest marker.
MARKERS = {
    "unit": "rules and formats; needs no database",
    "model": "exhaustive walk or comparison with another implementation; `make harness NAME=model`",
    "database": "needs PostgreSQL",
    "browser": "needs PostgreSQL and Chromium",
    "harness": "checks of the fault harness",
    "project": "checks the repository: architecture, documentation, supply chain",
    "every_server": "set by hand above the store: a result depends on the server version",
    "pg15": "runs on PostgreSQL 15, and may differ there; `make harness NAME=test-15`",
    "load": "set by hand: many workers or agents at once; `make harness NAME=test-load`",
    "slow": "repeats on PostgreSQL 15 what does not depend on it; with EVERY=1",
}

#: Pytest marker of each folder or file in `tests/`. If several paths contain a test file, the
#: longest path decides.
LAYERS = {
    "acceptance": "database",
    "accounts": "unit",
    "app": "database",
    "backup": "database",
    "browser": "browser",
    "cli": "database",
    "client": "database",
    "conditions": "unit",
    "conditions/test_same_as_cel.py": "model",
    "core": "unit",
    "dag": "unit",
    "embedded_postgres": "database",
    "fuzz": "unit",
    "harness": "harness",
    "importers": "unit",
    "integrations": "unit",
    "notifications": "unit",
    "plan": "unit",
    "plan/test_model_check.py": "model",
    "plugins": "unit",
    "project": "project",
    "research": "unit",
    "run": "unit",
    "run/test_model_check.py": "model",
    "store": "database",
    "test_background.py": "database",
    "test_no_network.py": "project",
    "test_page_address.py": "unit",
    "test_redaction.py": "unit",
    "test_settings.py": "unit",
    "transport": "database",
    "work": "database",
}

WITHOUT_DATABASE = frozenset({"unit", "model"})

#: Folders of tests whose results usually do not depend on the PostgreSQL version.
SAME_ON_EVERY_SERVER = ("app", "transport")


@cache
def layer_of(path: Path) -> str:
    """Return the pytest marker of a test file.

    Raises:
        LookupError: neither the file nor a folder above it is in `LAYERS`.
    """
    within = path.relative_to(TESTS)
    for candidate in (within, *within.parents):
        if str(candidate) in LAYERS:
            return LAYERS[str(candidate)]
    raise LookupError(f"no test layer for {within}; add its folder to tests/layers.py")


@cache
def is_repetition(path: Path) -> bool:
    """Return whether the tests of this file need not run on PostgreSQL 15 too."""
    return path.relative_to(TESTS).parts[0] in SAME_ON_EVERY_SERVER
