"""Examples in docstrings, which are executed and must return the results that they show."""

import doctest
import io
from importlib import import_module
from pathlib import Path

from project.repository import ROOT, SOURCE

TESTS = ROOT / "tests"
#: Folders with modules, each with the folder from which Python imports them.
FOLDERS = {SOURCE: SOURCE.parent, TESTS: TESTS}
PROMPT = "    >>> "
MIN_DOCSTRINGS = 150


def modules_with_examples() -> list[str]:
    """Return the names of the modules with an example in a docstring."""
    return [
        ".".join(path.relative_to(root).with_suffix("").parts)
        for folder, root in FOLDERS.items()
        for path in sorted(folder.rglob("*.py"))
        if path != Path(__file__) and PROMPT in path.read_text("utf-8")
    ]


def test_docstring_examples_return_documented_results() -> None:
    runner, report = doctest.DocTestRunner(), io.StringIO()
    docstrings = [
        test
        for name in modules_with_examples()
        for test in doctest.DocTestFinder().find(import_module(name))
        if test.examples
    ]
    for test in docstrings:
        runner.run(test, out=report.write)
    assert report.getvalue() == ""
    assert len(docstrings) >= MIN_DOCSTRINGS, "modules with examples are not found"
