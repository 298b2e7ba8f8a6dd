"""Costly inputs, made to exhaust memory or CPU time: on every channel, they use little of both.

A separate process handles all of them with 400 MB of memory and 150 seconds of CPU time. Costly
conditions are tested in `tests/conditions`, and costly inputs to the store in `tests/app`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import bombs

HERE = Path(__file__).parent
#: HTTP statuses that a response to a costly input may have.
ANSWERS = {200, 400, 403, 413, 415, 422}

BombReply = tuple[str, str, object, str]


@pytest.fixture(scope="module")
def bomb_replies() -> list[BombReply]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{HERE.parent}:{HERE.parent / 'support'}:{HERE.parents[1]}",
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "bomb_runner.py")],
        capture_output=True,
        check=False,
        env=environment,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return [
        (channel, name, answer, message)
        for channel, name, answer, message in json.loads(done.stdout)
    ]


def of(results: list[BombReply], *channels: str) -> list[BombReply]:
    matches = [result for result in results if result[0] in channels]
    assert matches
    return matches


def test_costly_http_requests_get_a_documented_status_and_error_code(
    bomb_replies: list[BombReply],
) -> None:
    for channel, name, answer, message in of(
        bomb_replies, "/mcp", "/api/report", "/api/map", "form"
    ):
        assert answer in ANSWERS, (channel, name, answer, message)
        assert not any(word in message for word in ("Traceback", "Internal error", "pydantic"))
        assert answer == 200 or channel == "form" or '"code":' in message, (channel, name, message)
        if name.startswith(("pack", "defl")):
            assert answer == 415


def test_costly_tool_arguments_are_parsed_or_rejected(bomb_replies: list[BombReply]) -> None:
    codes = {answer for _, _, answer, _ in of(bomb_replies, "arguments")}
    assert codes == {"read", "INVALID_INPUT", "TOO_LARGE"}
    for name in ("a NUL", "half a character", "more than a float"):
        assert "read" not in {
            answer for _, n, answer, _ in of(bomb_replies, "arguments") if n == name
        }


def test_costly_workflow_definitions_are_read_or_rejected(bomb_replies: list[BombReply]) -> None:
    outcomes = {
        name: (answer, message) for _, name, answer, message in of(bomb_replies, "definition")
    }
    assert outcomes.keys() == bombs.DEFINITIONS.keys()
    assert {answer for answer, _ in outcomes.values()} == {"read", "BAD_RECIPE"}
    for name in ("a billion laughs", "quadratic aliases", "merged keys", "itself", "deep YAML"):
        assert outcomes[name][0] == "BAD_RECIPE", name


def test_costly_templates_are_refused_unless_rendering_is_cheap(
    bomb_replies: list[BombReply],
) -> None:
    outcomes = {name: answer for _, name, answer, _ in of(bomb_replies, "template")}
    assert outcomes.keys() == bombs.TEMPLATES.keys()
    # The outcome `None` means no error: `attributes` only reads an attribute that does not exist.
    assert [name for name, answer in outcomes.items() if answer == "None"] == ["attributes"]


def test_size_of_a_page_rendered_from_costly_markdown_is_limited(
    bomb_replies: list[BombReply],
) -> None:
    for _, name, size, _ in of(bomb_replies, "Markdown"):
        assert isinstance(size, int)
        assert size < 20 * len(bombs.MARKDOWN[name]) + 10_000, name
