"""Threats on the trust page: each has a control in the source, and a test."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from project.controls import Control, controls
from project.repository import ROOT, read, sections

NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def threats() -> dict[str, list[str]]:
    """Return the table of threats: for each threat, the other cells of its row."""
    table = sections(read("concepts", "trust.md"), 2)["Threats"]
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    return {cells[0].strip(): cells[1:] for cells in rows[1:]}


def test_every_threat_has_a_control_and_a_test() -> None:
    entries = threats()
    assert len(entries) > 10
    for threat, (control, proof) in entries.items():
        assert control.strip(), threat
        assert NAMED.search(proof), threat


def test_tests_named_on_trust_page_exist() -> None:
    for threat, (_, proof) in threats().items():
        for file, name in NAMED.findall(proof):
            tree = ast.parse((ROOT / file).read_text("utf-8"))
            defined = {
                node.name
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            }
            assert not name or name in defined, (threat, name)


# Tests of the table of controls.


CONTROLS = list(controls())


@cache
def named_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(node.name for node in tree.body if isinstance(node, functions))


def faults(control: Control) -> Iterator[str]:
    for place in control.breaks:
        if (ROOT / place.file).read_text("utf-8").count(place.text) != 1:
            yield f"{control.name}: this must stand once in {place.file}: {place.text}"
        if place.text == place.without:
            yield f"{control.name}: nothing is taken away"
    for test in control.tests:
        file, _, name = test.partition("::")
        if not (ROOT / file).is_file() or (name and name not in named_in(file)):
            yield f"{control.name}: there is no {test}"


def test_every_security_control_exists_in_the_source_and_has_tests() -> None:
    assert len(CONTROLS) > 200
    assert [fault for control in CONTROLS for fault in faults(control)] == []
    assert [control.name for control in CONTROLS if not control.tests] == []


def test_security_controls_cover_exactly_the_documented_threats() -> None:
    assert {control.threat for control in CONTROLS} == {*threats()}


def test_security_control_names_are_unique() -> None:
    assert Counter(control.name for control in CONTROLS).most_common(1)[0][1] == 1
