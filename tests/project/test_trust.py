"""Every claim on the trust page has an existing test."""

import ast
import re

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
