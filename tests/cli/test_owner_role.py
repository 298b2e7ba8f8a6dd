"""`waybook doctor`, `migrate` and `serve` with a database owner who bypasses row-level security."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cli.terminal import Terminal
from owner_roles import EXEMPT, empty_place, open_role, place_owned_by, transfer_ownership
from postgres_servers import Server, ServerDatabase, new_database
from waybook.bootstrap import start_application
from waybook.embedded_postgres.supervisor import Attachment
from waybook.settings import Settings
from waybook.store.maintenance.migrate import MAINTENANCE_ROLE, migrate
from waybook.store.maintenance.owner import examine_owner


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture(params=EXEMPT)
def exempt_place(
    request: pytest.FixtureRequest, server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServerDatabase]:
    """Yield a database whose owner can bypass row-level security, and let commands use it."""
    with place_owned_by(request.param, server) as place:
        use(place, monkeypatch)
        yield place


def use(place: ServerDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAYBOOK_DATABASE_URL", place.app_dsn)
    monkeypatch.setenv("WAYBOOK_OWNER_URL", place.owner_dsn)


def owner_check(terminal: Terminal) -> dict[str, str]:
    report = json.loads(terminal.run("doctor", "--json", "--port", "0").stdout)
    (result,) = [check for check in report["checks"] if check["check"] == "owner"]
    return dict(result)


def test_doctor_accepts_owner_subject_to_row_level_security(
    terminal: Terminal, own_place: ServerDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(own_place, monkeypatch)
    result = owner_check(terminal)
    assert result["state"] == "ok"
    assert result["said"] == f"{own_place.server.owner}, bound by row-level security"


def test_doctor_warns_if_owner_bypasses_row_level_security(
    terminal: Terminal, exempt_place: ServerDatabase
) -> None:
    result = owner_check(terminal)
    assert result["state"] == "warn"
    assert "switches to waybook_maintenance to erase and retain" in result["said"]
    advice = result["todo"].partition("as an administrator run: ")[2]
    if not advice:
        assert "is a superuser" in result["said"]
        return
    with psycopg.connect(exempt_place.admin_dsn) as admin:
        admin.execute(advice.encode())
    assert owner_check(terminal)["state"] == "ok"


def test_doctor_fails_if_owner_cannot_assume_maintenance_role(
    terminal: Terminal, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_role(server, "bypassrls") as dsn, new_database(server) as made:
        place = replace(made, server=replace(server, owner_dsn=dsn))
        transfer_ownership(place)
        use(place, monkeypatch)
        failed = terminal.run("doctor", "--port", "0", columns=400)
        assert failed.exit_code == 1
        assert "grant waybook_maintenance to owner_" in failed.stdout
        warned = terminal.run("migrate", "--json")
        assert (warned.exit_code, json.loads(warned.stdout)) == (0, {"ran": []})
        assert "grant waybook_maintenance to owner_" in warned.stderr
        refused = terminal.run("org", "erase", "local", "--yes")
        assert refused.exit_code == 1
        assert "grant waybook_maintenance to owner_" in " ".join(refused.stderr.split())


def test_migrate_warns_if_owner_bypasses_row_level_security(
    terminal: Terminal, exempt_place: ServerDatabase
) -> None:
    done = terminal.run("migrate")
    assert (done.exit_code, exempt_place.dbname in done.output) == (0, False)
    assert "so row-level security does not apply to it" in done.stderr


async def test_server_start_warns_if_owner_bypasses_row_level_security(
    exempt_place: ServerDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    both = Settings(database_url=exempt_place.app_dsn, owner_url=exempt_place.owner_dsn)
    with caplog.at_level(logging.WARNING, "waybook.bootstrap"):
        async with start_application(both, sweeping=False):
            assert caplog.messages == []
        async with start_application(both):
            (message,) = [m for m in caplog.messages if m.startswith("the owner of the database")]
    assert "row-level security does not apply to it" in message


def test_org_erase_spares_other_orgs_if_owner_bypasses_row_security(
    terminal: Terminal, exempt_place: ServerDatabase
) -> None:
    for slug in ("acme", "other"):
        terminal.say("org", "add", slug)
    for slug in ("acme", "local"):
        terminal.say("org", "erase", slug, "--yes")
    with psycopg.connect(exempt_place.admin_dsn) as admin:
        left = admin.execute("select slug from org order by slug").fetchall()
    assert left == [("local",), ("other",)]


def test_migrate_by_owner_with_createrole_creates_maintenance_role(attachment: Attachment) -> None:
    """Since PostgreSQL 16, the role that creates another role needs a grant to assume it."""
    server = Server(
        name="18",
        admin_dsn=attachment.admin_dsn,
        owner_dsn=attachment.owner_dsn,
        app_dsn=attachment.app_dsn,
        role=None,
    )
    with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
        query = "select 1 from pg_roles where rolname = %s", (MAINTENANCE_ROLE,)
        assert admin.execute(*query).fetchall() == []
        with open_role(server, "bypassrls createrole") as dsn, empty_place(server, dsn) as place:
            migrate(place.owner_dsn)
            owner = examine_owner(place.owner_dsn)
            assert (owner.is_exempt, owner.refusal) == (True, None)
        admin.execute(f"drop role {MAINTENANCE_ROLE}")
