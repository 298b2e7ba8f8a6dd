"""Every design decision about runs is named in a test, here or in a test with a database."""

import re
from pathlib import Path

from decision_proofs import RUN_DECISIONS

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^@decision\(([^)]*)\)", re.MULTILINE)

#: Design decisions whose tests need a database: B17 concerns jobs that end at the same time, and
#: X3 concerns started stages.
STORED = {"B17", "X3"}


def test_every_documented_decision_about_runs_is_named_in_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    named = {name for text in texts for names in NAMED.findall(text) for name in names.split('"')}
    assert set(RUN_DECISIONS) - STORED <= named
