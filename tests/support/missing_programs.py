"""Programs and permissions that some tests need, with the tested feature and how to get each.

The summary at the end of a test run lists the missing ones.
"""

import os
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

FIFTEEN = Path(os.environ.get("WAYBOOK_TEST_FIFTEEN", "/usr/lib/postgresql/15/bin"))


class Requirement(NamedTuple):
    """Program or permission that some tests need."""

    name: str
    tested: str
    how_to_get: str
    #: True if CI must have it: without it, tests fail in CI instead of being skipped.
    needed_in_ci: bool = False

    @property
    def missing(self) -> str:
        """Return the reason for skipping a test; the summary counts the tests with this reason."""
        return f"NOT TESTED: {self.name} is missing"

    def skip(self, detail: str) -> NoReturn:
        """Skip the running test; in CI, fail it if `needed_in_ci` is true.

        Raises:
            AssertionError: the requirement is missing in CI, where it is needed.
        """
        if self.needed_in_ci and os.environ.get("CI") == "true":
            raise AssertionError(f"{self.missing}: {detail}")
        pytest.skip(f"{self.missing}: {detail}")


CHROMIUM = Requirement("Chromium", "pages in a browser", "apt install chromium", needed_in_ci=True)
POSTGRES_15 = Requirement(
    "PostgreSQL 15",
    "the oldest supported database, restore to a point in time, replicas",
    "apt install postgresql-15 (Debian 12; elsewhere from apt.postgresql.org)",
)
PGBOUNCER = Requirement("pgbouncer", "the store behind a pooler", "apt install pgbouncer")
PGVECTOR = Requirement(
    "pgvector", "search by pgvector", "apt install postgresql-15-pgvector (apt.postgresql.org)"
)
NODE_PACKAGES = Requirement(
    "npm registry",
    "accessibility, apps in a chat, conformance to MCP",
    "run the tests once with access to the npm registry",
    needed_in_ci=True,
)
ROOT = Requirement("root", "data directories of root", "run the tests as root")

REQUIREMENTS = (CHROMIUM, POSTGRES_15, PGBOUNCER, PGVECTOR, NODE_PACKAGES, ROOT)


def not_run(reasons: list[str]) -> list[str]:
    """Return a line for each missing requirement, with the number of tests skipped for it."""
    counts = {need: sum(need.missing in reason for reason in reasons) for need in REQUIREMENTS}
    return [
        f"{count} tests of {need.tested}: {need.name} is missing; {need.how_to_get}"
        for need, count in counts.items()
        if count
    ]
