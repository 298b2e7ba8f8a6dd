"""Design decisions about plans, each of which has a test with a mark for the decision."""

import re
from pathlib import Path

import pytest

from decision_proofs import DECISIONS, ELSEWHERE, ProofElsewhere

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^@decision\(([^)]*)\)", re.MULTILINE)


def decisions_named_in(folder: Path) -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("test_*.py")]
    named = [names for text in texts for names in NAMED.findall(text)]
    return {name for names in named for name in re.findall(r"A\d+", names)}


def test_every_documented_decision_about_plans_is_named_in_a_test() -> None:
    assert decisions_named_in(TESTS / "plan") == set(DECISIONS)


@pytest.mark.parametrize(("name", "elsewhere"), ELSEWHERE.items())
def test_documented_decision_without_plan_test_is_named_in_another_test(
    name: str, elsewhere: ProofElsewhere
) -> None:
    assert elsewhere.place.startswith("tests/")
    assert name in decisions_named_in(TESTS.parent / elsewhere.place)
