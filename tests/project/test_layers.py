"""Test layers: every test has one, and unit tests do not load the application."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from layers import LAYERS, MARKERS, TESTS, layer_of
from project.repository import ROOT

#: Modules that are slow to import and that the rules do not need.
HEAVY = ("psycopg", "mcp", "starlette", "waybook.app.dispatcher")


def test_table_of_test_layers_lists_only_existing_paths_and_known_markers() -> None:
    assert [name for name in LAYERS if not (TESTS / name).exists()] == []
    assert set(LAYERS.values()) <= set(MARKERS)


def test_every_test_file_belongs_to_a_test_layer() -> None:
    assert {layer_of(path) for path in TESTS.rglob("test_*.py")} == set(LAYERS.values())


def test_test_file_in_a_folder_without_a_layer_raises_lookup_error() -> None:
    with pytest.raises(LookupError, match=r"add its folder to tests/layers\.py"):
        layer_of(TESTS / "nowhere" / "test_x.py")


def test_make_fast_runs_every_folder_of_unit_tests() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^UNIT := \$\(addprefix tests/,(.+)\)$", makefile, re.MULTILINE)
    assert listed is not None
    assert listed[1].split() == sorted(name for name, layer in LAYERS.items() if layer == "unit")


def test_collecting_unit_tests_imports_no_database_driver_or_application() -> None:
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
    """The test runs a copy of the root conftest on a unit test that requests a database fixture."""
    for name in ("plan", "store"):
        (tmp_path / name).mkdir()
        test = "def test_x(shared_place): pass\n"
        (tmp_path / name / f"test_{name}.py").write_text(test, "utf-8")
    for name in ("conftest.py", "layers.py"):
        shutil.copy(TESTS / name, tmp_path)
    options = ["--collect-only", "-q", "-p", "no:cacheprovider", "--import-mode=importlib"]
    paths = ["-o", f"pythonpath={tmp_path} {TESTS} {TESTS / 'support'}", "-o", "asyncio_mode=auto"]
    command = [sys.executable, "-m", "pytest", *options, *paths, f"--rootdir={tmp_path}"]

    def collect(*folders: str) -> str:
        done = subprocess.run(
            [*command, *folders], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    assert "test_store.py::test_x[18]" in collect("store")
    assert "is in layer unit but uses ['" in collect("store", "plan")
