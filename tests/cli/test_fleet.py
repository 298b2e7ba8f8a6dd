"""`waybook doctor --fleet`: health, version, leader and lag of several servers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cli.terminal import Terminal
from waybook.integrations import server_probe

TOKEN = "-".join(["figures"] * 5)


def metrics(version: str, leads: int) -> str:
    info = f'waybook_info{{version="{version}",schema="0026",worker="0"}} 1\n'
    lag = 'waybook_background_lag_seconds{work="index",worker="0"} 12.5\n' if leads else ""
    return f'{info}waybook_leader{{worker="0"}} {leads}\n{lag}'


@contextmanager
def server(ready: int = 200, shown: str | None = None) -> Iterator[str]:
    """Serve the health checks, and the metrics for the token; yield the URL."""

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
