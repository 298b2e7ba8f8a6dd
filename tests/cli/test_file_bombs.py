"""Hostile files and input lines, which commands refuse within limits of memory and time."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import sql

import bombs
from cli.limited_process import MEBIBYTE, Session, limited_session
from cli.terminal import Terminal
from cli.test_reports import SNAPSHOT
from patience import PATIENCE_SECONDS
from waybook.cli.app import app
from waybook.cli.inputs import MAX_ARGUMENT_BYTES, MAX_SNAPSHOT_BYTES
from waybook.embedded_postgres.supervisor import Attachment
from waybook.errors import Misconfigured
from waybook.integrations.config import WebhookSettings
from waybook.settings_reading import MAX_FILE_BYTES, read_settings

#: Maximum memory of a command, in kilobytes.
ROOM = 700_000
ENDLESS = "/dev/zero"
#: Path of a file that can be opened but not read.
UNREADABLE = "/proc/self/mem"
NOWHERE = "postgresql://127.0.0.1:1/none"
ADD = ("dag", "add", "--database-url", NOWHERE)
CALL = ("call", "create_research_plan", "-", "--database-url", NOWHERE)
FEEDBACK = ("feedback", "run", "stage", "-", "--database-url", NOWHERE)


def little(*words: str, typed: str = "/dev/null") -> subprocess.CompletedProcess[str]:
    """Run a command with limited memory and the input `typed`; check that it reports an error."""
    limited = f'ulimit -v {ROOM}; exec "$@" <"$0"'
    command = ["sh", "-c", limited, typed, sys.executable, "-m", "waybook", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode in {1, 2}, done.stderr
    assert "Traceback" not in done.stderr
    assert "MemoryError" not in done.stderr
    return done


def here(*words: str, typed: bytes = b"") -> Result:
    done = CliRunner().invoke(app, words, input=typed)
    assert isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 50 MB whose content would take 1 GB of memory after parsing."""
    file = tmp_path_factory.mktemp("large") / "lists"
    with file.open("wb") as written:
        written.write(b"[")
        written.writelines([b"[]," * 100_000] * 170)
        written.write(b"0]\n")
        written.write(json.dumps(SNAPSHOT).encode())
    return file


@pytest.mark.parametrize("command", ["report", "map"])
@pytest.mark.parametrize("kind", ["large", "endless"])
def test_oversized_input_file_is_refused_with_json_error(
    large: Path, command: str, kind: str
) -> None:
    done = little(command, str(large) if kind == "large" else ENDLESS)
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["details"]) == ("TOO_LARGE", {"limit": MAX_SNAPSHOT_BYTES})
    assert done.stderr == ""


def test_report_command_reports_a_too_long_line_and_continues(large: Path) -> None:
    limited = f'ulimit -v {ROOM}; exec "$@"'
    words = [sys.executable, "-m", "waybook", "report", str(large), "--lines"]
    done = subprocess.run(["sh", "-c", limited, "sh", *words], capture_output=True, check=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["error"]["code"] == "TOO_LARGE"
    assert "stages" in second


def test_report_command_exits_with_error_after_an_endless_line() -> None:
    done = little("report", ENDLESS, "--lines")
    assert json.loads(done.stdout)["error"]["code"] == "TOO_LARGE"
    assert "a line is too long" in done.stderr


def test_dag_add_rejects_oversized_definition() -> None:
    done = little(*ADD, ENDLESS)
    assert "the text is longer than 1,048,576 bytes" in done.stderr


@pytest.mark.parametrize("command", [CALL, FEEDBACK])
def test_command_refuses_endless_stdin_at_the_size_limit(command: tuple[str, ...]) -> None:
    assert (
        f"longer than the limit of {MAX_ARGUMENT_BYTES:,} bytes"
        in little(*command, typed=ENDLESS).stderr
    )


@pytest.mark.parametrize("command", [("report",), ("map",), ADD])
def test_error_for_unreadable_file_names_file_and_cause(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    for file, why in ((UNREADABLE, "Input/output error"), (str(tmp_path), "Is a directory")):
        done = here(*command, file)
        assert done.exit_code == 2
        assert f"{file}: {why}" in " ".join(done.stderr.split())


def test_command_input_not_in_utf8_is_refused() -> None:
    for words in (["map", "-"], [*ADD, "-", "--json"]):
        error = json.loads(here(*words, typed=b"slug: a\nname: M\xfcnchen\n").stdout)["error"]
        (fault,) = error["details"]["faults"]
        assert (fault["at"], fault["message"]) == ("line 2, column 8", "this is not UTF-8")
    for command in (CALL, FEEDBACK):
        assert "this is not UTF-8" in here(*command, typed=b"\xff").stderr


@pytest.mark.parametrize("name", bombs.DEEP)
def test_call_command_with_deeply_nested_arguments_is_a_usage_error(name: str) -> None:
    done = here(*CALL, typed=bombs.DEEP[name].encode())
    assert done.exit_code == 2
    assert "JSON" in done.stderr


def test_map_command_reads_run_snapshot_from_pipe() -> None:
    words = f"{sys.executable} -m waybook map <(cat)"
    typed = json.dumps(SNAPSHOT)
    done = subprocess.run(
        ["bash", "-c", words], input=typed, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["stages"]


@pytest.mark.parametrize(
    "text",
    [
        b"port = " + b"[" * 100_000,
        b'host = "\xff"',
        b"port = " + b"9" * 5_000,
        b"#" * (MAX_FILE_BYTES + 1),
        b"\0",
    ],
    ids=["deep", "not UTF-8", "digits", "large", "NUL"],
)
def test_unreadable_settings_file_raises_misconfigured(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(text)
    with pytest.raises(Misconfigured, match="configuration file"):
        read_settings({}, {"WAYBOOK_CONFIG": str(file)})
    with pytest.raises(Misconfigured, match="configuration file"):
        read_settings({}, {"WAYBOOK_CONFIG": str(tmp_path)})


def test_webhook_template_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.failed.txt").symlink_to(ENDLESS)
    webhook = WebhookSettings(
        url="", secrets=(), format="text", events=frozenset(), templates_dir=tmp_path
    )
    with pytest.raises(Misconfigured, match=r"plan\.failed\.txt is not a file"):
        webhook.custom_templates()


# Tests of hostile lines to `waybook mcp`.


#: Input lines that are not valid messages, each with a name.
LINES = {
    "not UTF-8": b"\xff\xfe\xfd",
    "not UTF-8 in a request": b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
    "a surrogate in UTF-8": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"),
    "NULs": b"\0" * 1000,
    "no message": b'{"id":1,"method":"ping"}',
    "many messages": b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    **{name: text.encode() for name, text in bombs.VALUES.items()},
}
WRITTEN = ("plan", "plan_brief", "plan_step", "step_brief", "plan_session", "idempotency_answer")
STEPS = '"steps":[{"stepType":"custom","instructions":"Do."}]'
PLAN = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"create_research_plan",'


def plan_request(value: str) -> bytes:
    """Return a request that creates a plan, with this JSON value as its research question."""
    return f'{PLAN}"arguments":{{"name":"a","researchQuestion":{value},{STEPS}}}}}}}'.encode()


def stored(attachment: Attachment) -> dict[str, int]:
    """Return the number of rows in each table to which `create_research_plan` writes.

    Background work of earlier tests may write to other tables.
    """
    with psycopg.connect(attachment.admin_dsn) as admin:
        count = sql.SQL("select count(*) from {}")
        counts = {name: count.format(sql.Identifier(name)) for name in WRITTEN}
        return {name: admin.execute(query).fetchall()[0][0] for name, query in counts.items()}


def long_request(size: int, before: bytes, after: bytes) -> Iterator[bytes]:
    """Yield a request with a text of about `size` bytes between `before` and `after`."""
    yield before + b'"'
    for _ in range(size // MEBIBYTE):
        yield b"x" * MEBIBYTE
    yield b'"' + after


def refusals(session: Session) -> list[tuple[object, object]]:
    rejected = [(message["id"], message["error"]["code"]) for message in session.said]
    session.said.clear()
    return rejected


async def test_mcp_connection_over_stdio_continues_after_hostile_input(
    terminal: Terminal, attachment: Attachment
) -> None:
    async with limited_session("--data-dir", str(terminal.data_dir)) as session:
        before = stored(attachment)
        await check_invalid_lines(session)
        await check_hostile_arguments(session)
        assert await session.end() == b""
    assert stored(attachment) == before


async def check_invalid_lines(session: Session) -> None:
    for name, line in LINES.items():
        await session.write([line, b"\n"])
        await session.works()
        ((whose, code),) = refusals(session)
        assert whose is None, name
        assert code in {-32700, -32600}, name
    await session.write([b"\n", b"  \r\n"])
    await session.works()
    assert refusals(session) == []  # The server does not answer empty lines.


async def check_hostile_arguments(session: Session) -> None:
    for name, value in bombs.VALUES.items():
        await session.write([plan_request(value), b"\n"])
        await session.works()
        reply = session.said.pop() if session.said else await session.hear(7)
        assert session.said == [], name
        if "error" in reply:
            assert (reply["id"], reply["error"]["code"]) == (None, -32700), name
        else:
            assert reply["result"]["isError"], name
            error = json.loads(reply["result"]["content"][0]["text"])["error"]
            assert error["code"] in {"INVALID_INPUT", "TOO_LARGE"}, name


async def test_refusal_of_a_too_long_line_contains_the_request_id(terminal: Terminal) -> None:
    ahead = long_request(
        100 * MEBIBYTE, b'{"jsonrpc":"2.0","id":7,"method":"ping","params":', b"}\n"
    )
    behind = long_request(
        2 * MEBIBYTE, b'{"method":"ping","params":', b',"jsonrpc":"2.0","id":"a"}\n'
    )
    without_id = long_request(2 * MEBIBYTE, b'{"method":"ping","params":', b"}\n")
    request = b'{"jsonrpc":"2.0","id":7,"method":"ping"'
    longest = request + b" " * (MEBIBYTE - len(request) - 1) + b"}\n"
    async with limited_session("--data-dir", str(terminal.data_dir)) as session:
        await session.write([longest])
        assert (await session.hear(7))["result"] == {}
        for line, whose in (([b" " + longest], 7), (ahead, 7), (behind, "a"), (without_id, None)):
            await session.write(line)
            refused = (await session.hear(whose))["error"]
            assert refused["data"]["error"]["code"] == "TOO_LARGE"
            assert refused["data"]["error"]["details"] == {"limit": MEBIBYTE}
            await session.works()
        await session.write([b"x" * MEBIBYTE] * 20)
        (last,) = (await session.end()).splitlines()
        assert json.loads(last)["error"]["data"]["error"]["code"] == "TOO_LARGE"
