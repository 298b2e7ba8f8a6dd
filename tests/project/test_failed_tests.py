"""Failed tests: after a test fails or never ends, the others run."""

from pathlib import Path

import pytest

from project.planted_tests import run_planted

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
    # The process of the endless test exits, and another one takes its place.
    limit = ("-o", "faulthandler_timeout=3")
    done = run_planted(tmp_path, "-n", "1", "--dist", "worksteal", "-q", *limit, plan=PLANTED)
    assert "3 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    # The test's own failure and the failure to format it.
    assert "AssertionError: assert 7 == 0" in done.stdout
    assert "ZeroDivisionError" in done.stdout


def test_missing_test_path_is_refused_before_test_workers_start(tmp_path: Path) -> None:
    done = run_planted(tmp_path, "-n", "2", "gone/test_gone.py", plan=PLANTED)
    assert done.returncode == 4
    assert f"file or directory not found: {tmp_path}/gone/test_gone.py" in done.stderr
    assert "bringing up nodes" not in done.stdout


def test_test_summary_names_a_missing_program_and_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In CI, the planted test would fail, because CI must run the tests in a browser.
    monkeypatch.delenv("CI", raising=False)
    skipped = "from missing_programs import CHROMIUM\n\ndef test_x(): CHROMIUM.skip('planted')\n"
    done = run_planted(tmp_path, "-q", plan=skipped)
    wanted = "1 tests of pages in a browser: Chromium is missing; apt install chromium"
    assert wanted in done.stdout.splitlines()
