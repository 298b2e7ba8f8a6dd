"""Tested clients: the source, the page, the lock files and the scripts list the same clients."""

import re
from dataclasses import replace

import pytest

from project.repository import ROOT, read
from tools.clients.catalog import CI, CLIENTS, DRIVERS, LOCKS, select
from tools.clients.matrix import BEGIN, END, HEADER, unexpected
from tools.clients.run import Outcome
from tools.clients.waybook_server import FACTS, missing_facts

ROW = re.compile(r"^\| (.+?) \| (\S+) \| (\w[\w ]*) \| (\w[\w ]*) \|", re.MULTILINE)


def table() -> str:
    text = read("clients.md")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def test_clients_page_lists_every_client_with_the_locked_version() -> None:
    rows = [(row[1], row[2]) for row in ROW.finditer(table().split(HEADER[1])[1])]
    assert rows == [(client.label, client.version) for client in CLIENTS]


def test_failures_shown_on_clients_page_are_exactly_the_known_failures() -> None:
    for label, _, stdio, http in ROW.findall(table().split(HEADER[1])[1]):
        (client,) = [client for client in CLIENTS if client.label == label]
        failed = {name for name, cell in (("stdio", stdio), ("http", http)) if cell != "passes"}
        assert failed == set(client.known_failures), label


def test_every_client_has_a_script_and_every_script_is_used() -> None:
    assert {client.driver for client in CLIENTS} == set(DRIVERS.glob("drive_*.py"))


def test_every_lock_file_of_clients_belongs_to_a_listed_client() -> None:
    locks = {*LOCKS.glob("*.lock"), *LOCKS.glob("*/package-lock.json")}
    assert {client.lock for client in CLIENTS} == locks


def test_python_client_lock_files_have_hashes_and_no_index_url() -> None:
    for client in (client for client in CLIENTS if client.ecosystem != "npm"):
        text = client.lock.read_text(encoding="utf-8")
        assert "://" not in text, client.name
        assert len(re.findall(r"^\S+==", text, re.MULTILINE)) == len(
            re.findall(r"^\S+==.*\\\n    --hash=sha256:", text, re.MULTILINE)
        ), client.name


def test_clients_tested_in_ci_are_in_the_list_of_clients() -> None:
    assert [client.name for client in select(CI)] == list(CI)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "tools.clients --ci" in makefile


def changes(*facts: tuple[str, str, str]) -> list[dict[str, str]]:
    """Return audit changes, each given as kind of row, field and new value."""
    return [{"entity": entity, "field": name, "to": value} for entity, name, value in facts]


@pytest.mark.parametrize("reason", FACTS)
def test_client_test_reports_an_event_missing_from_the_audit(reason: str) -> None:
    others = [fact for name, fact in FACTS.items() if name != reason]
    audit = {"codex-http": changes(*others)}
    assert missing_facts(audit, "codex-http") == [reason]


def test_client_test_reports_no_missing_event_after_complete_scenario() -> None:
    assert missing_facts({"codex-http": changes(*FACTS.values())}, "codex-http") == []
    assert missing_facts({}, "codex-http") == ["no plan was created"]


def outcome(failure: str | None) -> Outcome:
    """Return the outcome of a client test, with the reason of its failure, if it failed."""
    return Outcome(
        client="codex",
        version="1",
        transport="http",
        seconds=1.0,
        failure=failure,
        shows_instructions=False,
        tools=11,
    )


def test_client_test_reports_new_failures_and_fixed_known_failures() -> None:
    (codex,) = select(["codex"])
    known = replace(codex, known_failures={"http": "a bug of the client"})
    assert unexpected(codex, {"http": outcome(None)}) == []
    assert unexpected(codex, {"http": outcome("refused")}) == ["codex-http: refused"]
    assert unexpected(known, {"http": outcome("refused")}) == []
    (ended,) = unexpected(known, {"http": outcome(None)})
    assert "passes now" in ended


def test_selecting_an_unknown_client_lists_the_known_clients() -> None:
    with pytest.raises(LookupError, match=r"no client nothing; .*claude-code"):
        select(["nothing"])
