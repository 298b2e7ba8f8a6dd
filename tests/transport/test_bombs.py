"""No input causes disproportionate cost: costly inputs on every channel.

They are sent in a separate process, which has 400 MB and 150 seconds of CPU time for all of them.
Conditions have their own, in `tests/conditions`; the store is tested in `tests/usecases`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bombs

HERE = Path(__file__).parent
#: Statuses for accepted and for refused input.
ANSWERS = {200, 400, 403, 413, 415, 422}

Told = tuple[str, str, object, str]


@pytest.fixture(scope="module")
def told() -> list[Told]:
    """Return the result of each input."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE.parents[1]}"}
    done = subprocess.run(
        [sys.executable, str(HERE / "bombing.py")],
        capture_output=True,
        check=False,
        env=environment,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return [(door, name, answer, said) for door, name, answer, said in json.loads(done.stdout)]


def of(told: list[Told], *doors: str) -> list[Told]:
    found = [one for one in told if one[0] in doors]
    assert found
    return found


def test_every_bomb_gets_an_answer_over_http(told: list[Told]) -> None:
    for door, name, answer, said in of(told, "/mcp", "/api/report", "/api/map", "form"):
        assert answer in ANSWERS, (door, name, answer, said)
        assert not any(word in said for word in ("Traceback", "Internal error", "pydantic")), name


def test_what_is_refused_has_a_name(told: list[Told]) -> None:
    for door, name, answer, said in of(told, "/mcp", "/api/report", "/api/map"):
        if answer != 200:
            assert '"code":' in said, (door, name, said)


def test_packed_bodies_are_not_unpacked(told: list[Told]) -> None:
    packed = [one for one in of(told, "/mcp", "/api/report") if one[1].startswith(("pack", "defl"))]
    assert len(packed) == 6
    assert {answer for _, _, answer, _ in packed} == {415}


def test_a_file_is_answered_or_refused_in_a_line(told: list[Told]) -> None:
    for command, name, code, said in of(told, "report", "map"):
        assert code in {0, 1}, (command, name)
        assert code == 0 or '"code":' in said, (command, name, said)


def test_arguments_are_refused_by_name(told: list[Told]) -> None:
    codes = {answer for _, _, answer, _ in of(told, "arguments")}
    assert codes == {"read", "INVALID_INPUT", "TOO_LARGE"}
    for name in ("a NUL", "half a character", "more than a float"):
        assert "read" not in {answer for _, n, answer, _ in of(told, "arguments") if n == name}


def test_definitions_are_read_or_refused_with_their_place(told: list[Told]) -> None:
    found = {name: (answer, said) for _, name, answer, said in of(told, "definition")}
    assert found.keys() == bombs.DEFINITIONS.keys()
    assert {answer for answer, _ in found.values()} == {"read", "BAD_RECIPE"}
    for name in ("a billion laughs", "quadratic aliases", "merged keys", "itself", "deep YAML"):
        assert found[name][0] == "BAD_RECIPE", name


def test_templates_are_refused_before_they_cost_anything(told: list[Told]) -> None:
    found = {name: answer for _, name, answer, _ in of(told, "template")}
    assert found.keys() == bombs.TEMPLATES.keys()
    # A missing attribute of a text has no value, which is answered as Python's None.
    assert [name for name, answer in found.items() if answer == "None"] == ["attributes"]


def test_markdown_becomes_a_page_of_bounded_size(told: list[Told]) -> None:
    for _, name, size, _ in of(told, "Markdown"):
        assert isinstance(size, int)
        assert size < 20 * len(bombs.MARKDOWN[name]) + 10_000, name
