"""The benchmark of page rendering runs with the current code."""

import subprocess
import sys

from project.repository import ROOT


def test_benchmark_of_dashboard_pages_renders_every_page() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "pages.py"), "--rounds", "1"],
        env={"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests/support'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["the", "13", "500", "5,000"]
