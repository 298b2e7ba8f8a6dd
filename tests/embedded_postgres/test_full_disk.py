"""Full disk, which startup, calls and the readiness check report until there is space again."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.requests import Request

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory, remove_data_directory
from faults import disk
from org_env import OrgEnv
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.cli.runtime import open_app
from waybook.core.decision_context import Channel
from waybook.settings_reading import read_settings
from waybook.transport.http.metrics import Operations

SMALL_MEGABYTES = 20
LARGE_MEGABYTES = 200
#: Instructions of a step, so long that PostgreSQL needs new pages for them.
LONG_TEXT = "Measure the discharge of the river. " * 400
MAX_CALLS = 100


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """Yield a data directory on a disk of 20 MB; skip the test if it cannot mount a disk."""
    with make_data_directory() as place:
        disk.make_disk(place / "disk", SMALL_MEGABYTES)
        if not disk.can_be_filled(place / "disk"):
            pytest.skip("a file system can be mounted only by root")
        try:
            yield place / "disk" / "data"
        finally:
            disk.free(place / "disk")
            remove_data_directory(place / "disk" / "data")
            disk.remove_disk(place / "disk")


def enlarge(data_dir: Path) -> None:
    options = f"remount,size={LARGE_MEGABYTES}m"
    subprocess.run(["mount", "-o", options, data_dir.parent], check=True)


async def readiness(dispatcher: ServerDispatcher) -> tuple[int, dict[str, Any]]:
    operations = Operations(dispatcher.is_ready, stuck=bool, metrics=tuple)
    response = await operations.readyz(Request({"type": "http"}))
    return response.status_code, json.loads(bytes(response.body))


def test_first_start_on_small_disk_reports_the_free_bytes(small_disk: Path) -> None:
    failed = Terminal(small_disk).run("plans")
    message = " ".join(failed.stderr.split())
    assert failed.exit_code == 1
    assert "the disk is too full" in message
    assert f"bytes are free at {small_disk}" in message
    assert [*small_disk.rglob("cluster*")] == []
    enlarge(small_disk)
    assert "There are no such plans." in Terminal(small_disk).say("plans")


def test_call_on_full_disk_writes_nothing_until_there_is_space(small_disk: Path) -> None:
    async def act() -> None:
        settings = read_settings({"data_dir": small_disk}, {}).settings
        async with open_app(settings) as here:
            dispatcher = ServerDispatcher(here.app.services, here.app.calls)
            caller = here.app.caller(Channel.MCP)
            disk.fill(small_disk.parent)
            written, arguments = 0, long_plan(0)
            while not (
                answer := await dispatcher.dispatch(caller, "create_research_plan", arguments)
            ).is_error:
                written += 1
                assert written < MAX_CALLS, "the disk was never full"
                arguments = long_plan(written)
            error = json.loads(json.dumps(answer.body))["error"]
            assert error["code"] == "DISK_FULL"
            assert "disk" in error["message"]
            assert error["next"]["tool"] == "create_research_plan"
            assert error["next"]["why"].startswith("Retry the same call")
            status, body = await readiness(dispatcher)
            assert (status, body["error"]["code"]) == (503, "DISK_FULL")
            listed = await dispatcher.dispatch(caller, "list_active_plans", {})
            assert listed.body["total"] == written
            disk.free(small_disk.parent)
            assert (await readiness(dispatcher))[0] == 200
            again = await dispatcher.dispatch(caller, "create_research_plan", arguments)
            assert not again.is_error

    enlarge(small_disk)
    asyncio.run(act())


def long_plan(number: int) -> dict[str, object]:
    texts = [LONG_TEXT + os.urandom(2000).hex() for _ in range(20)]
    steps = [{"stepType": "search", "title": "Rivers", "instructions": text} for text in texts]
    named = {"name": f"Rivers {number}", "idempotencyKey": f"key-{number}"}
    return {**named, "researchQuestion": "Which river carries most water?", "steps": steps}


async def test_full_disk_of_an_external_database_server_raises_disk_full(own_world: OrgEnv) -> None:
    with psycopg.connect(own_world.place.admin_dsn) as admin:
        admin.execute(
            "create function fail() returns trigger language plpgsql as $$ begin"
            " raise exception 'could not extend file' using errcode = '53100'; end $$"
        )
        admin.execute("create trigger fail before insert on plan execute function fail()")
    error = await own_world.agent.refused("create_research_plan", **long_plan(1))
    assert (error["code"], error["details"]) == ("DISK_FULL", {"retryAfter": 30})
    assert own_world.dispatcher.services.database.wire.is_disk_full
    assert (await readiness(own_world.dispatcher))[0] == 200
    assert not own_world.dispatcher.services.database.wire.is_disk_full
