"""`waybook mcp` and `waybook serve` as processes, the Python client, and the Python API."""

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

import waybook
from cli.stdio_client import find_free_port, open_serve, open_stdio
from cli.terminal import Terminal
from patience import PATIENCE_SECONDS
from postgres_servers import ServerDatabase
from waybook import errors
from waybook.client import KINDS, Client, error_from


def test_mcp_command_lists_tools_although_the_database_is_missing(
    tmp_path: Path, module_place: ServerDatabase
) -> None:
    words = "--database-url", make_conninfo(module_place.app_dsn, dbname="missing")
    with open_stdio(tmp_path / "data", find_free_port(), *words) as client:
        assert "get_next_step" in {tool["name"] for tool in client.ask("tools/list")["tools"]}
        refused = client.ask("tools/call", name="ping", arguments={})
        assert refused["isError"]
        assert json.loads(refused["content"][0]["text"])["error"]["code"] == "UNAVAILABLE"
        client.end()


def test_serve_command_answers_http_client_and_exits_on_sigterm(terminal: Terminal) -> None:
    with open_serve(terminal.data_dir, 0) as address:
        asyncio.run(work(address))


#: Program that runs the command line, and sends SIGTERM to itself after the first output.
SIGNALED_AT_FIRST_OUTPUT = """
import os, signal, sys
from waybook.cli.app import main

class Output:
    def __init__(self, stream):
        self.stream, self.is_first = stream, True

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, text):
        written = self.stream.write(text)
        if self.is_first and text:
            self.is_first = False
            self.stream.flush()
            os.kill(os.getpid(), signal.SIGTERM)
        return written

sys.stdout = Output(sys.stdout)
main()
"""


def test_serve_exits_with_zero_if_stopped_right_after_starting(terminal: Terminal) -> None:
    arguments = ["serve", "--port", "0", "--data-dir", str(terminal.data_dir)]
    done = subprocess.run(
        [sys.executable, "-c", SIGNALED_AT_FIRST_OUTPUT, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Waybook is serving")
    assert "Stopped" in done.stdout


async def work(address: str) -> None:
    async with Client(address) as wb:
        assert {tool["name"] for tool in await wb.tools()} >= {"get_next_step", "ping"}
        steps = [{"stepType": "custom", "instructions": "Do it."}]
        args: dict[str, Any] = {"name": "By program", "researchQuestion": "?", "steps": steps}
        made = await wb.call("create_research_plan", **args)
        step = await wb.call("get_next_step", planId=made["planId"])
        with pytest.raises(errors.StaleAttempt):
            await wb.call(
                "submit_step_result", stepId=step["stepId"], attempt=7, resultSummary="late"
            )
        with pytest.raises(errors.NotFound) as missing:
            await wb.call("get_next_step", planId="nobody")
        assert missing.value.next_call is not None
        with pytest.raises(errors.InvalidInput):
            await wb.call("no_such_tool")


def every_error(kind: type[errors.WaybookError] = errors.WaybookError) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from every_error(below)


def test_every_error_code_has_an_exception_class() -> None:
    codes = {kind.code for kind in every_error()}  # type: ignore[attr-defined]  # they are errors
    assert set(KINDS) == codes


def test_error_rebuilt_from_json_has_same_type_and_details() -> None:
    payload = errors.InvalidTransition(
        "no such edge", old="completed", new="pending", planId="p"
    ).as_json()
    back = error_from(payload["error"])  # type: ignore[arg-type]  # an error is an object
    assert isinstance(back, errors.InvalidTransition)
    assert back.as_json() == payload


# Tests of the public Python API.


def test_type_stub_of_waybook_lists_same_public_names_as_package() -> None:
    stub = ast.parse(files("waybook").joinpath("__init__.pyi").read_text(encoding="utf-8"))
    (names,) = [node.value for node in stub.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(names) == waybook.__all__


def test_unknown_attribute_of_waybook_package_raises_attribute_error() -> None:
    with pytest.raises(AttributeError):
        waybook.nothing_of_the_kind  # type: ignore[attr-defined]  # noqa: B018 - that is the test
