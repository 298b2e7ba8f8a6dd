"""Test layers, one for each test; reports about failed, endless and skipped tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from layers import LAYERS, MARKERS, TESTS, layer_of
from project.repository import ROOT
from run_place import PLACE


def run_planted(folder: Path, *options: str, **files: str) -> "subprocess.CompletedProcess[str]":
    """Write each file into a folder with the same name, and run pytest on the folders."""
    for name, text in files.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / f"test_{name}.py").write_text(text, "utf-8")
    for name in ("conftest.py", "layers.py"):
        shutil.copy(TESTS / name, folder)
    settings = ["-c", f"{ROOT}/pyproject.toml", f"--rootdir={folder}", "-p", "no:cacheprovider"]
    paths = ["-o", f"pythonpath={folder} {ROOT / 'harness'} {TESTS} {TESTS / 'support'}"]
    # The new test run creates a directory of its own, so remove the variable that names the
    # directory of the current test run.
    variables = {name: value for name, value in os.environ.items() if name != PLACE}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *settings, *paths, *options, *files],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


# Tests of layers.


#: Modules that take long to import, and that tests of the rules must not import.
HEAVY = ("psycopg", "mcp", "starlette", "waybook.app.dispatcher")


def test_table_of_test_layers_lists_existing_paths_and_known_markers() -> None:
    assert [name for name in LAYERS if not (TESTS / name).exists()] == []
    assert set(LAYERS.values()) <= set(MARKERS)


def test_every_test_file_belongs_to_a_test_layer() -> None:
    assert {layer_of(path) for path in TESTS.rglob("test_*.py")} == set(LAYERS.values())


def test_file_in_a_folder_without_layer_raises_lookup_error() -> None:
    with pytest.raises(LookupError, match=r"add its folder to tests/layers\.py"):
        layer_of(TESTS / "nowhere" / "test_x.py")


def test_make_fast_runs_every_folder_of_unit_tests() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^UNIT := \$\(addprefix tests/,(.+)\)$", makefile, re.MULTILINE)
    assert listed is not None
    assert listed[1].split() == sorted(name for name, layer in LAYERS.items() if layer == "unit")


def test_unit_tests_import_no_database_driver_or_application() -> None:
    file = TESTS / "plan" / "test_states.py"
    code = f"""
import sys, pytest
assert pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", {str(file)!r}]) == 0
print([name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_unit_test_that_uses_a_database_fixture_is_not_collected(tmp_path: Path) -> None:
    test = "def test_x(shared_place): pass\n"
    refused = run_planted(tmp_path, "--collect-only", store=test, plan=test)
    assert "is in layer unit but uses ['" in refused.stderr


# Tests of the reports about failed and endless tests.


PLANTED = '''
import ast
import gc
import threading

import pytest


class Parser:
    """Parses a statement in each garbage collection, as the report of a leaked connection does."""

    wanted = True

    def __init__(self):
        self.cycle = self

    def __del__(self):
        ast.parse("x")
        if self.wanted:
            Parser()


@pytest.fixture
def parsing_finalizer():
    kept = gc.get_threshold()
    gc.set_threshold(1)
    Parser()
    yield
    Parser.wanted = False
    gc.set_threshold(*kept)
    gc.collect()


def test_before():
    pass


def test_fails_while_a_finalizer_parses(parsing_finalizer):
    assert len("planted") == 0


def test_fails_while_nothing_can_be_parsed(monkeypatch):
    monkeypatch.setattr(ast, "parse", lambda *_: 1 / 0)
    assert len("planted") == 0


def test_never_ends():
    threading.Event().wait()


def test_after():
    pass
'''


def test_failed_or_endless_test_does_not_end_other_tests(tmp_path: Path) -> None:
    # pytest ends the process of the endless test, and starts a new one.
    limit = ("-o", "faulthandler_timeout=3")
    done = run_planted(tmp_path, "-n", "1", "--dist", "worksteal", "-q", *limit, plan=PLANTED)
    assert "3 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    # The report shows the failed assertion, and the error that occurred while pytest formatted it.
    assert "AssertionError: assert 7 == 0" in done.stdout
    assert "ZeroDivisionError" in done.stdout


def test_missing_test_path_is_refused_before_test_workers_start(tmp_path: Path) -> None:
    done = run_planted(tmp_path, "-n", "2", "gone/test_gone.py", plan=PLANTED)
    assert done.returncode == 4
    assert f"file or directory not found: {tmp_path}/gone/test_gone.py" in done.stderr
    assert "bringing up nodes" not in done.stdout


def test_summary_of_a_test_run_names_missing_program_and_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In CI, browser tests must not be skipped, so the test would fail.
    monkeypatch.delenv("CI", raising=False)
    skipped = "from missing_programs import CHROMIUM\n\ndef test_x(): CHROMIUM.skip('planted')\n"
    done = run_planted(tmp_path, "-q", plan=skipped)
    wanted = "1 tests of pages in a browser: Chromium is missing; apt install chromium"
    assert wanted in done.stdout.splitlines()
