"""Example programs, which must complete their plans on a real server."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from embedded_postgres.data_directories import make_data_directory
from patience import PATIENCE_SECONDS
from project.repository import README, ROOT, code_blocks
from run_place import run_directory

HOW_TO = ROOT / "docs" / "how-to" / "write-an-agent-in-python.md"
SHOWN_ADDRESS = "http://127.0.0.1:8750"
ADDRESS = re.compile(rb"http://127\.0\.0\.1:\d+")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Start `waybook serve` with its own database; yield its URL when it is ready."""
    with make_data_directory(parent=run_directory()) as place:
        command = [
            sys.executable,
            "-m",
            "waybook",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(place),
        ]
        surroundings = {k: v for k, v in os.environ.items() if not k.startswith("WAYBOOK_")}
        server = subprocess.Popen(
            command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            yield ready(server)
        finally:
            server.terminate()
            server.communicate(timeout=PATIENCE_SECONDS)


def ready(server: "subprocess.Popen[bytes]") -> str:
    assert server.stdout is not None
    announced = ADDRESS.search(server.stdout.readline())
    assert announced is not None, "the server did not start"
    url = announced[0].decode()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while httpx2.get(f"{url}/readyz").status_code != httpx2.codes.OK:
        assert time.monotonic() < deadline, "the server is not ready"
    return url


def output_of(example: str, address: str) -> list[str]:
    command = [sys.executable, str(ROOT / "examples" / example), address]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        cwd=Path("/"),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_single_agent_example_completes_a_plan_with_added_step(address: str) -> None:
    assert output_of("one_agent.py", address) == [
        "Find candidates: 1 of 3 done",
        "Compare them: 2 of 4 done",
        "  confidence < 0.6, so add_steps",
        "Look again: 3 of 4 done",
        "Write it up: 4 of 4 done",
        "plan_complete",
    ]


def test_three_agents_example_completes_each_step_once(address: str) -> None:
    lines = output_of("three_agents_one_plan.py", address)
    assert lines[0] == "cleo comes back too late: STALE_ATTEMPT"
    assert lines[1] == "9 of 9 done, completed"
    assert lines[2].startswith("9 steps in ")
    assert lines[2].endswith("none of them twice")


def test_readme_python_block_completes_a_plan(address: str) -> None:
    (shown,) = code_blocks(README.read_text("utf-8"), "python")
    assert SHOWN_ADDRESS in shown
    done = subprocess.run(
        [sys.executable, "-c", shown.replace(SHOWN_ADDRESS, address)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout == "completed\n", done.stderr


def test_python_program_in_the_how_to_guide_completes_a_plan(address: str) -> None:
    shown, *_ = code_blocks(HOW_TO.read_text("utf-8"), "python")
    assert SHOWN_ADDRESS in shown
    done = subprocess.run(
        [sys.executable, "-c", shown.replace(SHOWN_ADDRESS, address)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    expected = [{"percent": 50, "done": 1, "total": 2}, {"percent": 100, "done": 2, "total": 2}]
    assert done.stdout.splitlines() == [str(progress) for progress in expected], done.stderr


def test_every_example_script_is_run_by_a_test() -> None:
    run = set(re.findall(r'output_of\("(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert run == {path.name for path in (ROOT / "examples").glob("*.py")}
