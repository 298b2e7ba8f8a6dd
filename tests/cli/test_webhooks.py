"""`waybook webhooks`, and the webhook checks of `waybook doctor`."""

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cli.sample_runs import agent_in, start
from cli.terminal import Terminal
from waybook.cli.runtime import open_app
from waybook.settings_reading import read_settings
from webhook_env import SECRET


class Receiver(ThreadingHTTPServer):
    """HTTP server that answers with `status` and keeps the bodies of requests."""

    status = 204
    got: list[dict[str, object]]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append(json.loads(body))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver(("127.0.0.1", 0), Handler) as server:
        server.got = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("WAYBOOK_WEBHOOK_URL", f"http://127.0.0.1:{server.server_port}/s3cret")
        monkeypatch.setenv("WAYBOOK_WEBHOOK_SECRET", SECRET)
        yield server
        server.shutdown()


def doctor(terminal: Terminal) -> dict[str, dict[str, str]]:
    ran = terminal.run("doctor", "--json", "--port", "0")
    assert "s3cret" not in ran.stdout
    assert SECRET not in ran.stdout
    return {check["check"]: check for check in json.loads(ran.stdout)["checks"]}


def test_webhooks_list_command_shows_the_delivery_of_a_test_message(
    terminal: Terminal, receiver: Receiver
) -> None:
    assert terminal.say("webhooks", "test") == "✓ the test arrived (204)\n"
    assert receiver.got[-1]["type"] == "webhook.test"
    delivery = terminal.json_output("webhooks", "list", "--limit", "1")[0]
    assert (delivery["event"], delivery["status"], delivery["answered"]) == (
        "webhook.test",
        "delivered",
        204,
    )
    listed = terminal.say("webhooks", columns=140)
    assert "webhook.test" in listed
    assert "✓ delivered" in listed
    assert doctor(terminal)["notices"]["state"] == "ok"


def test_retry_command_delivers_a_webhook_message_that_failed(
    terminal: Terminal, receiver: Receiver
) -> None:
    receiver.status = 410
    failed = terminal.run("webhooks", "test")
    assert failed.exit_code == 1
    error, message = failed.output.splitlines()
    assert error == "✗ the test did not arrive: it answered 410"
    assert doctor(terminal)["notices"]["state"] == "warn"
    assert terminal.run("webhooks", "retry", message.strip()).exit_code == 1
    receiver.status = 200
    again = terminal.json_output("webhooks", "retry", message.strip())
    assert (again["id"], again["status"]) == (message.strip(), "delivered")
    assert doctor(terminal)["notices"]["state"] == "ok"
    unknown = terminal.run("webhooks", "retry", "none")
    assert (unknown.exit_code, "waybook webhooks list" in unknown.output) == (1, True)


def test_review_command_leaves_the_webhook_delivery_to_another_process(
    terminal: Terminal, receiver: Receiver
) -> None:
    plan_id = terminal.under_review("Seas")
    (review,) = terminal.json_output("review", plan_id)
    assert review["reviewUrl"].endswith(f"/plans/{plan_id}#review")
    assert f"http://127.0.0.1:8750/plans/{plan_id}#review" in terminal.say("status", plan_id)
    terminal.say("review", plan_id, "--reject")
    delivery = terminal.json_output("webhooks", "list")[0]
    assert (delivery["event"], delivery["status"]) == ("plan.failed", "waiting")
    assert receiver.got == []
    terminal.say("webhooks", "test")
    assert {event["type"] for event in receiver.got} == {"plan.failed", "webhook.test"}


def test_webhooks_test_command_fails_without_webhook_url(terminal: Terminal) -> None:
    failed = terminal.run("webhooks", "test")
    assert failed.exit_code == 1
    assert "webhooks are off: set webhook_url" in failed.output
    assert doctor(terminal)["webhooks"] == {
        "check": "webhooks",
        "state": "ok",
        "said": "off",
        "todo": None,
    }


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("SECRET", "", "needs a webhook_secret"),
        ("SECRET", "hush", "whsec_"),
        ("EVENTS", "plan.completed, plan.gone", "no event 'plan.gone'"),
        ("FORMAT", "slack:/nowhere", "there is no folder /nowhere"),
    ],
)
def test_doctor_command_fails_for_invalid_webhook_settings(
    terminal: Terminal,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    fault: str,
) -> None:
    assert receiver.status == 204
    monkeypatch.setenv(f"WAYBOOK_WEBHOOK_{name}", value)
    check = doctor(terminal)["webhooks"]
    assert check["state"] == "fail"
    assert fault in check["said"]


def test_doctor_command_warns_about_webhook_over_plain_http(
    terminal: Terminal, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor(terminal)["webhooks"]["state"] == "ok"
    monkeypatch.setenv("WAYBOOK_WEBHOOK_URL", "http://hooks.example.org/s3cret")
    check = doctor(terminal)["webhooks"]
    assert (check["state"], check["todo"]) == ("warn", "use https://")
    assert receiver.got == []


def complete_stage(terminal: Terminal, name: str) -> None:
    """Complete the first stage of a run; webhook settings come from environment variables."""

    async def act() -> None:
        settings = read_settings({"data_dir": terminal.data_dir}, os.environ).settings
        async with open_app(settings) as here:
            agent = agent_in(here)
            over = await agent.work_off(await start(agent, name, models=1))
            assert over["status"] == "awaiting_feedback"

    asyncio.run(act())


@pytest.mark.usefixtures("receiver")
def test_revoke_links_command_revokes_links_of_one_or_all_runs(terminal: Terminal) -> None:
    for name in ("River run", "Lake run"):
        complete_stage(terminal, name)
    revoked = "The links of 1 message are revoked; nothing is decided.\n"
    assert terminal.say("webhooks", "revoke-links", "River run") == revoked
    assert terminal.json_output("webhooks", "revoke-links", "River run") == {"revoked": 0}
    assert terminal.say("webhooks", "revoke-links") == revoked
