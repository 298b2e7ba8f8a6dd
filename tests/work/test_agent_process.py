"""Agent processes, with real commands."""

import sys
from pathlib import Path

from waybook.work.adapters import find_adapter
from waybook.work.agent_process import run_agent
from waybook.work.tasks import Limits, OutcomeKind, Task


async def test_custom_command_returns_the_result_that_it_wrote(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys, pathlib\n"
        "print(pathlib.Path(sys.argv[1]).read_text())\n"
        "pathlib.Path(os.environ['WAYBOOK_RESULT']).write_text('{\"rivers\": 3}')\n"
    )
    adapter, workers = find_adapter(f"cmd:{sys.executable} {script} {{prompt_file}}")
    lines: list[str] = []
    outcome = await run_agent(adapter, Task("Count.", tmp_path), Limits(), lines.append)
    assert (outcome.kind, outcome.result, lines) == (OutcomeKind.DONE, {"rivers": 3}, ["Count."])
    assert workers == 1
