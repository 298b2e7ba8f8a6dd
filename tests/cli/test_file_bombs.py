"""Hostile input files: commands succeed or fail cleanly within limits of memory and time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import bombs
from cli.test_reports import SNAPSHOT
from patience import PATIENCE_SECONDS
from waybook.cli.app import app
from waybook.cli.inputs import MAX_ARGUMENT_BYTES, MAX_SNAPSHOT_BYTES
from waybook.errors import Misconfigured
from waybook.integrations.config import WebhookSettings
from waybook.settings_reading import MAX_FILE_BYTES, read_settings

#: Memory limit of a command in kilobytes, and its time limit in seconds.
ROOM = 700_000
ENDLESS = "/dev/zero"
#: Path of a file that can be opened, but from which every read fails.
UNREADABLE = "/proc/self/mem"
NOWHERE = "postgresql://127.0.0.1:1/none"
ADD = ("dag", "add", "--database-url", NOWHERE)
CALL = ("call", "create_research_plan", "-", "--database-url", NOWHERE)
FEEDBACK = ("feedback", "run", "stage", "-", "--database-url", NOWHERE)


def little(*words: str, typed: str = "/dev/null") -> subprocess.CompletedProcess[str]:
    """Run a command with limited memory, with a file as its stdin."""
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
    """Return a file of 50 MB that would take 1 GB of memory once parsed."""
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


def test_report_command_continues_after_a_too_long_line(large: Path) -> None:
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
