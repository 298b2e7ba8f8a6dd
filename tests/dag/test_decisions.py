"""Design decisions about runs, each of which a test names, here or in a test with a database."""

import re
from pathlib import Path

from decision_proofs import RUN_DECISIONS

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^@decision\(([^)]*)\)", re.MULTILINE)

#: Decisions whose tests need a database: B17 is about jobs that end at the same time, X3 about
#: started stages.
STORED = {"B17", "X3"}


def test_every_documented_decision_about_runs_is_named_in_a_test() -> None:
    texts = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    named = {name for text in texts for names in NAMED.findall(text) for name in names.split('"')}
    assert set(RUN_DECISIONS) - STORED <= named
