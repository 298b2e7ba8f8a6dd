"""Test layers: every test has one, and unit tests do not load the application."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from layers import LAYERS, MARKERS, TESTS, layer_of
from project.planted_tests import run_planted
from project.repository import ROOT

#: Modules that are slow to import and that the rules do not need.
HEAVY = ("psycopg", "mcp", "starlette", "waybook.app.dispatcher")


def test_test_layer_table_lists_existing_paths_and_known_markers() -> None:
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
