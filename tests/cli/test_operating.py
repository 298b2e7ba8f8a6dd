"""`waybook doctor` for one server and for a fleet, and `waybook migrate`."""

import asyncio
import json
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cli.terminal import Terminal
from patience import PATIENCE_SECONDS
from waybook.embedded_postgres.supervisor import Attachment
from waybook.integrations import server_probe
from waybook.store.maintenance.migrate import bundled_migrations


def doctor(terminal: Terminal, port: str = "0") -> dict[str, dict[str, str]]:
    return checks(json.loads(terminal.run("doctor", "--json", "--port", port).stdout))


def checks(report: object) -> dict[str, dict[str, str]]:
    assert isinstance(report, dict)
    return {check["check"]: check for check in report["checks"]}


def test_doctor_command_passes_every_database_check_on_healthy_server(terminal: Terminal) -> None:
    terminal.say("migrate")
    results = doctor(terminal)
    guarded = ("database", "server", "migrations", "roles", "row-level security", "audit", "clock")
    assert {results[name]["state"] for name in guarded} == {"ok"}
    tried = ("write", "search", "render", "indexing")
    assert {results[name]["state"] for name in tried} == {"ok"}
    assert results["search"]["said"] == "full text and vectors, ranked in this process"


def test_doctor_command_shows_source_of_each_setting(terminal: Terminal) -> None:
    report = json.loads(terminal.run("doctor", "--json", "--port", "0").stdout)
    assert report["settings"]["port"] == {"value": "0", "from": "flag"}
    assert report["settings"]["data_dir"]["from"] == "environment WAYBOOK_DATA_DIR"
    assert report["settings"]["host"] == {"value": "127.0.0.1", "from": "default"}


def test_doctor_command_fails_without_database_and_hides_the_password(terminal: Terminal) -> None:
    url = "postgresql://ann:s3cret@127.0.0.1:1/none"
    failed = terminal.run("doctor", "--database-url", url, columns=160)
    assert failed.exit_code == 1
    assert "✗ fail" in failed.stdout
    assert "s3cret" not in failed.output


def test_doctor_command_shows_model_endpoint_but_not_the_api_key(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = doctor(terminal)
    assert none["model"]["said"] == "not configured (agents use their own model)"
    monkeypatch.setenv("WAYBOOK_MODEL_URL", "https://models.example/v1")
    monkeypatch.setenv("WAYBOOK_MODEL", "small")
    monkeypatch.setenv("WAYBOOK_MODEL_KEY", "s3cret")
    output = terminal.run("doctor", "--json", "--port", "0").output
    report = json.loads(output)
    assert checks(report)["model"]["said"].startswith("small at models.example")
    assert report["settings"]["model_key"] == {
        "value": "…",
        "from": "environment WAYBOOK_MODEL_KEY",
    }
    assert "s3cret" not in output + terminal.run("doctor", "--port", "0", columns=160).output


def test_doctor_command_names_issuer_that_cannot_be_reached(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("AUTH", "required"),
        ("OIDC_ISSUER", "http://127.0.0.1:1"),
        ("OIDC_ORG", "acme"),
        ("OIDC_CLIENT_ID", "pages"),
        ("OIDC_CLIENT_SECRET", "s3cret"),
    ):
        monkeypatch.setenv(f"WAYBOOK_{name}", value)
    failed = terminal.run("doctor", "--json", "--port", "0")
    assert failed.exit_code == 1
    assert "s3cret" not in failed.output
    issuer = checks(json.loads(failed.stdout))["issuer"]
    assert (issuer["state"], issuer["said"]) == ("fail", "http://127.0.0.1:1: it cannot be reached")


def test_doctor_command_fails_for_invalid_trusted_proxies_setting(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor(terminal)["proxies"]["state"] == "ok"
    monkeypatch.setenv("WAYBOOK_TRUSTED_PROXIES", "10.0.0.0/8, proxy.example.org")
    assert doctor(terminal)["proxies"]["state"] == "fail"
    refused = terminal.run("serve", "--port", "0")
    assert (refused.exit_code, "trusted_proxies" in refused.stderr) == (1, True)


def test_commands_print_the_grant_that_the_database_role_lacks(
    terminal: Terminal, attachment: Attachment, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.say("migrate")
    with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
        admin.execute("create role stranger login password 'x'")
        admin.execute("grant connect on database waybook to stranger")
        url = make_conninfo(attachment.owner_dsn, user="stranger", password="x")  # noqa: S106
        monkeypatch.setenv("WAYBOOK_DATABASE_URL", url)
        monkeypatch.setenv("WAYBOOK_OWNER_URL", attachment.owner_dsn)
        results = doctor(terminal)
        assert results["roles"]["state"] == "fail"
        for words in (("plans",), ("serve", "--port", "0")):
            refused = terminal.run(*words)
            message = " ".join(refused.stderr.split())
            assert (refused.exit_code, "grant waybook_app to stranger" in message) == (1, True)
        assert "grant waybook_app to stranger" in asyncio.run(_first_log_line_of_mcp(terminal))
        admin.execute("grant waybook_app to stranger")
        results = doctor(terminal)
        assert results["roles"]["state"] == "ok"
        admin.execute("drop owned by stranger; drop role stranger")


async def _first_log_line_of_mcp(terminal: Terminal) -> str:
    """Start `waybook mcp`, and return the first line that it logs."""
    command = (sys.executable, "-m", "waybook", "mcp", "--data-dir", str(terminal.data_dir))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        line = await process.stderr.readline()
        await process.communicate(b"")  # This closes the input of the process, which then ends.
    return line.decode()


def test_doctor_command_warns_if_port_is_in_use(terminal: Terminal) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = str(taken.getsockname()[1])
        results = doctor(terminal, port)
    assert results["port"]["state"] == "warn"
    assert "--port" in results["port"]["todo"]


def test_migrate_check_lists_pending_migrations_of_new_database(
    terminal: Terminal, attachment: Attachment
) -> None:
    with psycopg.connect(attachment.admin_dsn, autocommit=True) as admin:
        admin.execute("create database fresh owner waybook_owner")
    fresh = ("--database-url", make_conninfo(attachment.owner_dsn, dbname="fresh"))
    names = [migration.title for migration in bundled_migrations()]
    before = terminal.run("migrate", "--check", "--json", *fresh)
    assert (before.exit_code, json.loads(before.stdout)) == (1, {"pending": names})
    assert (
        checks(json.loads(terminal.run("doctor", "--json", *fresh).stdout))["migrations"]["todo"]
        == "waybook migrate"
    )
    assert terminal.json_output("migrate", *fresh) == {"ran": names}
    assert terminal.json_output("migrate", *fresh) == {"ran": []}
    assert "up to date" in terminal.say("migrate", "--check", *fresh)


def test_doctor_command_lists_loaded_skills_and_warns_of_invalid_skill(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Bad-Name").mkdir()
    (tmp_path / "Bad-Name" / "SKILL.md").write_text("---\nname: Bad-Name\ndescription: x\n---\n")
    monkeypatch.setenv("WAYBOOK_SKILLS_DIRS", str(tmp_path))
    report = json.loads(terminal.run("doctor", "--json").stdout)
    results = [check for check in report["checks"] if check["check"] == "skills"]
    assert [check["state"] for check in results] == ["ok", "warn"]
    assert results[0]["said"] == "2: deep-research, quick-scan"
    assert results[1]["said"].startswith(f"{tmp_path / 'Bad-Name'} is ignored: the name 'Bad-Name'")
    assert results[1]["todo"]


# Tests of `waybook doctor --fleet`. The leader is the server that does the background work.


TOKEN = "-".join(["figures"] * 5)


def metrics(version: str, leads: int) -> str:
    info = f'waybook_info{{version="{version}",schema="0026",worker="0"}} 1\n'
    lag = 'waybook_background_lag_seconds{work="index",worker="0"} 12.5\n' if leads else ""
    return f'{info}waybook_leader{{worker="0"}} {leads}\n{lag}'


@contextmanager
def server(ready: int = 200, shown: str | None = None) -> Iterator[str]:
    """Run a server with health checks for everyone and metrics for callers with `TOKEN`.

    Yield the URL of the server.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            knows = self.headers.get("authorization") == f"Bearer {TOKEN}"
            status, body = {
                "/healthz": (200, "{}"),
                "/readyz": (ready, "{}"),
                "/metrics": (200 if shown and knows else 404, shown or ""),
            }[self.path]
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_doctor_fleet_shows_ready_servers_and_the_leader(
    terminal: Terminal, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBOOK_METRICS_TOKEN", TOKEN)
    urls = [stack.enter_context(server(shown=metrics("1.0", leads))) for leads in (1, 0)]
    done = terminal.run("doctor", "--fleet", ",".join(urls), "--json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    first, second = report["servers"]
    assert (first["is_ready"], first["leads"], first["lag_seconds"]) == (True, True, 12.5)
    assert (second["version"], second["schema"], second["leads"]) == ("1.0", "0026", False)
    assert report["differences"] == []


def test_doctor_fleet_reports_different_versions_and_a_missing_leader(
    terminal: Terminal, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBOOK_METRICS_TOKEN", TOKEN)
    urls = [stack.enter_context(server(shown=metrics(v, 0))) for v in ("1.0", "1.1")]
    done = terminal.run("doctor", "--fleet", ",".join(urls), columns=160)
    assert done.exit_code == 0
    assert "different versions: 1.0, 1.1" in done.stdout
    assert "0 servers do the background work" in done.stdout


def test_doctor_fleet_exits_with_1_if_server_is_not_ready(
    terminal: Terminal, stack: ExitStack
) -> None:
    urls = [stack.enter_context(server()), stack.enter_context(server(ready=503))]
    assert terminal.run("doctor", "--fleet", urls[0]).exit_code == 0
    assert terminal.run("doctor", "--fleet", ",".join(urls)).exit_code == 1
    unreachable = terminal.run("doctor", "--fleet", f"{urls[0]},http://127.0.0.1:1", columns=160)
    assert unreachable.exit_code == 1
    assert "ConnectError" in unreachable.stdout


@pytest.mark.parametrize("urls", ["", "ftp://a", "http://", "http://ann@a"])
def test_doctor_fleet_refuses_invalid_urls(terminal: Terminal, urls: str) -> None:
    done = terminal.run("doctor", "--fleet", urls)
    assert done.exit_code != 0
    assert "s3cret" not in done.output


def test_doctor_fleet_refuses_too_many_servers(terminal: Terminal) -> None:
    urls = ",".join(f"http://127.0.0.1:{n}" for n in range(1, server_probe.MAX_SERVERS + 2))
    assert terminal.run("doctor", "--fleet", urls).exit_code != 0
