"""Programs and rights that some tests need: what is not tested without them, and how to get them.

The summary at the end of a run lists those that were missing.
"""

import os
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

FIFTEEN = Path(os.environ.get("WAYBOOK_TEST_FIFTEEN", "/usr/lib/postgresql/15/bin"))


class Requirement(NamedTuple):
    """Something that must be there for some of the tests."""

    name: str
    tested: str
    how_to_get: str
    #: Whether a run in CI fails without it.
    needed_in_ci: bool = False

    @property
    def missing(self) -> str:
        """Return the reason of a skipped test, which the summary of the run counts."""
        return f"NOT TESTED: {self.name} is missing"

    def skip(self, detail: str) -> NoReturn:
        """Skip the running test, or fail it in CI if the requirement must be there.

        Raises:
            AssertionError: this is CI, where the tests must run.
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
