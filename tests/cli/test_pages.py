"""URLs in replies over stdio, which open in a browser; tested with real processes."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from cli.stdio_client import (
    find_free_port,
    get_page,
    is_listening,
    open_serve,
    open_stdio,
    opens,
    wait_until_it_opens,
)
from cli.terminal import Terminal
from embedded_postgres.processes import eventually
from patience import PATIENCE_SECONDS
from waybook.embedded_postgres.data_directory import ControlDirectory
from waybook.embedded_postgres.supervisor import Attachment
from waybook.page_address import PageRecord, find_page_server
from waybook.settings import Settings


@pytest.fixture
def data_dir(attachment: Attachment) -> Iterator[Path]:
    """Yield a data directory for which no process serves a dashboard."""
    control_dir = ControlDirectory(attachment.data_dir)
    control_dir.pages_record.unlink(missing_ok=True)
    yield attachment.data_dir
    assert find_page_server(Settings(data_dir=attachment.data_dir)) is None
    control_dir.pages_record.unlink(missing_ok=True)


def server_of(data_dir: Path) -> PageRecord:
    server = find_page_server(Settings(data_dir=data_dir))
    assert server is not None
    return server


def test_review_url_works_until_the_stdio_process_ends(data_dir: Path) -> None:
    port = find_free_port()
    with (
        open_stdio(data_dir, port) as agent,
        httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as browser,
    ):
        url = agent.review("Rivers of the north")
        assert url.startswith(f"http://127.0.0.1:{port}/plans/")
        page = get_page(url)
        assert (page.status_code, "Rivers of the north" in page.text) == (200, True)
        assert get_page(url, host="evil.example").status_code == 421
        assert get_page(url, origin="http://evil.example").status_code == 403
        assert server_of(data_dir) == PageRecord(
            url=f"http://127.0.0.1:{port}", command="waybook mcp", pid=agent.process.pid
        )
        with browser.stream("GET", f"http://127.0.0.1:{port}/live") as stream:
            assert next(stream.iter_raw()).startswith(b"id: ")
            agent.end()
    assert not is_listening(port)


def test_second_stdio_process_serves_dashboard_after_the_first_is_killed(data_dir: Path) -> None:
    port = find_free_port()
    with open_stdio(data_dir, port) as first, open_stdio(data_dir, port) as second:
        url = first.review("Survives")
        assert (first.base_url(), second.base_url()) == (f"http://127.0.0.1:{port}",) * 2
        assert server_of(data_dir).pid == first.process.pid
        assert opens(url)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        wait_until_it_opens(url)
        assert server_of(data_dir).pid == second.process.pid
        assert second.base_url() == f"http://127.0.0.1:{port}"
        second.end()
    assert not is_listening(port)


def test_reply_has_working_url_after_dashboard_process_was_killed(data_dir: Path) -> None:
    port = find_free_port()
    with open_stdio(data_dir, port) as first, open_stdio(data_dir, port) as second:
        first.review("Killed")
        second.call("ping")
        # Pause the second process, so that it cannot take over the port of the killed process.
        os.kill(second.process.pid, signal.SIGSTOP)
        eventually(second.process.is_stopped, "the second process is stopped")
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        with closing(socket.create_server(("127.0.0.1", port))):
            os.kill(second.process.pid, signal.SIGCONT)
            url = second.review("At another port")
            assert not url.startswith(f"http://127.0.0.1:{port}/")
            assert "At another port" in get_page(url).text
        second.end()


def test_dashboard_reuses_port_chosen_while_configured_port_was_busy(data_dir: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = int(taken.getsockname()[1])
        with open_stdio(data_dir, port) as agent:
            url = agent.review("Elsewhere")
            assert not url.startswith(f"http://127.0.0.1:{port}/")
            assert "Elsewhere" in get_page(url).text
            agent.end()
    with open_stdio(data_dir, port) as agent:
        agent.call("ping")
        assert opens(url)
        agent.end()


def test_stdio_process_links_to_running_server_instead_of_serving_pages(data_dir: Path) -> None:
    port = find_free_port()
    with open_serve(data_dir, 0) as served, open_stdio(data_dir, port) as agent:
        url = agent.review("By the server")
        assert url.startswith(f"{served}/plans/")
        assert "By the server" in get_page(url).text
        assert server_of(data_dir).command == "waybook serve"
        assert not is_listening(port)
        agent.end()


def test_serve_command_takes_over_dashboard_port_from_stdio_process(data_dir: Path) -> None:
    port = find_free_port()
    with (
        open_stdio(data_dir, port) as agent,
        httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as browser,
    ):
        url = agent.review("Back and forth")
        stream = browser.send(
            browser.build_request("GET", f"http://127.0.0.1:{port}/live"), stream=True
        )
        assert next(stream.iter_raw()).startswith(b"id: ")
        with open_serve(data_dir, port) as served:
            stream.close()
            assert served == f"http://127.0.0.1:{port}"
            assert opens(url)
            assert server_of(data_dir).command == "waybook serve"
            assert agent.base_url() == served
        wait_until_it_opens(url)
        assert server_of(data_dir).pid == agent.process.pid
        agent.end()


@pytest.mark.parametrize("is_remote", [True, False])
def test_stdio_serves_no_pages_with_remote_database_or_pages_disabled(
    data_dir: Path, attachment: Attachment, *, is_remote: bool
) -> None:
    port = find_free_port()
    words = ("--database-url", attachment.app_dsn) if is_remote else ()
    owner = {"WAYBOOK_OWNER_URL": attachment.owner_dsn} if is_remote else {"WAYBOOK_PAGES": "off"}
    with open_stdio(data_dir, port, *words, **owner) as agent:
        assert agent.review("Unserved").startswith(f"http://127.0.0.1:{port}/plans/")
        assert not is_listening(port)
        agent.end()


def test_tools_answer_even_if_dashboard_pages_cannot_be_served(data_dir: Path) -> None:
    record = ControlDirectory(data_dir).pages_record
    record.mkdir()
    port = find_free_port()
    try:
        with open_stdio(data_dir, port) as agent:
            url = agent.review("Without pages")
            assert url.startswith(f"http://127.0.0.1:{port}/plans/")
            assert not is_listening(port)
            agent.end()
            assert "the dashboard is not served by this process" in agent.log.read_text()
    finally:
        record.rmdir()


def test_commands_print_dashboard_address_or_start_command(
    data_dir: Path, terminal: Terminal
) -> None:
    with open_stdio(data_dir, find_free_port()) as agent:
        url = agent.review("Printed")
        plan_id = url.partition("/plans/")[2].partition("#")[0]
        assert url in terminal.say("status", plan_id)
        assert url in terminal.say("review", plan_id)
        assert "waybook serve" not in terminal.say("status", plan_id)
        assert [review["reviewUrl"] for review in terminal.json_output("review", plan_id)] == [url]
        plans = {plan["planId"]: plan for plan in terminal.json_output("plans")}
        assert plans[plan_id]["reviewUrl"] == url
        checks = {check["check"]: check for check in terminal.json_output("doctor")["checks"]}
        assert f"process {agent.process.pid}" in checks["dashboard"]["said"]
        agent.end()
    for shown in (terminal.say("status", plan_id), terminal.say("review", plan_id)):
        assert "http://127.0.0.1:8750/plans/" in shown
        assert "start one: waybook serve" in shown
