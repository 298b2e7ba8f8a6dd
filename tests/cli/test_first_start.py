"""First start on a new machine: what it creates and prints, and how it can be interrupted."""

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminal import Terminal
from embedded_postgres.data_directories import make_data_directory
from embedded_postgres.processes import eventually
from run_place import run_directory
from waybook.cli.app import COMMANDS


@pytest.fixture
def empty() -> Iterator[Path]:
    """Yield a path for a data directory, which does not exist yet."""
    with make_data_directory(parent=run_directory()) as place:
        yield place / "data"


def test_doctor_has_no_warning_before_and_after_first_use(empty: Path) -> None:
    terminal = Terminal(empty)
    for command in ("doctor", "plans"):
        terminal.say(command)
        report = json.loads(terminal.say("doctor", "--json", "--port", "0"))
        assert [check for check in report["checks"] if check["state"] != "ok"] == []


#: Modules that take long to import.
LIBRARIES = (
    "anyio cryptography httpx2 jinja2 jsonschema jwt markdown_it mcp mcp_types numpy pydantic "
    "starlette uvicorn waybook.app.registry waybook.bootstrap waybook.dag.diagram.svg "
    "waybook.dag.templates.engine yaml"
)
#: Modules of `LIBRARIES`, with the commands that may import these modules. A command may import no
#: other module of `LIBRARIES`.
NEEDED = {
    "": (
        "plans",
        "status PLAN",
        "watch PLAN --once",
        "usage",
        "org list",
        "user list",
        "token list",
        "migrate",
        "retain",
        "backup FILE",
        "connect cursor --print",
        "plugin codex",
        "outputs PLAN",
        "webhooks",
        "audit list",
        "runs",
        "run RUN",
        "documents RUN",
        "audit verify",
    ),
    "waybook.dag.diagram.svg": ("export PLAN", "export RUN", "import --dry-run PLAN.md"),
    "markdown_it": ("review",),
    "jinja2 markdown_it numpy waybook.dag.templates.engine yaml": ("doctor",),
    "numpy pydantic waybook.app.registry": ("search Lakes",),
    "pydantic waybook.app.registry": ("call ping", "status PLAN --json"),
    "yaml": ("dag list", "template list"),
}
#: Program that runs several commands, and lists the modules that each of them imported.
RUN = """
import sys
from waybook.cli.app import main
libraries, *commands = sys.argv[1:]
imported = []
for command in commands:
    sys.argv[1:] = command.split()
    before = set(sys.modules)
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
    imported.append((command, sorted(set(libraries.split()) & (set(sys.modules) - before))))
print(imported, file=sys.stderr)
"""


@pytest.mark.parametrize("needed", NEEDED)
def test_commands_import_only_needed_libraries(
    terminal: Terminal, tmp_path: Path, needed: str
) -> None:
    (tmp_path / "PLAN.md").write_text("- [ ] one task\n")
    plan_id = terminal.plan("Lakes")
    run_id = terminal.call("start_run", dagSlug="deep-research", name="L", input="i", models=["m"])
    names = {"PLAN": plan_id, "RUN": run_id["runId"], "FILE": "copy.waybook"}
    commands = [
        " ".join(names.get(word, word) for word in command.split()) for command in NEEDED[needed]
    ]
    done = subprocess.run(
        [sys.executable, "-c", RUN, LIBRARIES, *commands],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"WAYBOOK_DATA_DIR": str(terminal.data_dir)},
    )
    imported = ast.literal_eval(done.stderr.splitlines()[-1])
    assert len(imported) == len(commands)
    assert [entry for entry in imported if not {*entry[1]} <= {*needed.split()}] == []


SERVER_LIBRARIES = "anyio httpx2 mcp numpy starlette uvicorn uvloop"
IMPORT_ALL = """
import importlib, sys
for module in sys.argv[2:]:
    importlib.import_module(module)
print(*sorted(set(sys.argv[1].split()) & set(sys.modules)))
"""


def test_commands_that_start_no_server_import_no_server_library() -> None:
    modules = {
        f"waybook.cli.{target.partition(':')[0]}"
        for name, (target, _) in COMMANDS.items()
        if name not in {"serve", "mcp", "doctor"}  # `doctor` sends HTTP requests.
    }
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, SERVER_LIBRARIES, *sorted(modules)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


WAYBOOK = (sys.executable, "-m", "waybook")
ASCII_ONLY = {
    "LC_ALL": "C",
    "LANG": "C",
    "PYTHONIOENCODING": "ascii",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
}


@pytest.mark.parametrize("command", ["plans", "mcp", "serve --port 0", "demo --fast"])
def test_interrupted_first_start_prints_nothing_and_can_be_repeated(
    empty: Path, command: str
) -> None:
    temporary = empty.parent / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    process = subprocess.Popen(
        [*WAYBOOK, *command.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"WAYBOOK_DATA_DIR": str(empty), "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    search = empty.parent.rglob
    eventually(lambda: [*search("cluster.unfinished-*"), *search("PG_VERSION")], "initdb runs")
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate() == (b"", b"")
    assert process.returncode == 128 + signal.SIGINT
    assert [*temporary.iterdir()] == []
    Terminal(empty).say("plans")
    assert [*empty.rglob("cluster.unfinished-*")] == []


def test_output_of_every_command_can_be_printed_in_ascii(terminal: Terminal) -> None:
    plan_id = terminal.plan("Größe der Elbe → Fund ✓")
    environment = os.environ | ASCII_ONLY | {"WAYBOOK_DATA_DIR": str(terminal.data_dir)}
    for words in ("doctor", f"status {plan_id}"):
        done = subprocess.run(
            [*WAYBOOK, *words.split()], capture_output=True, check=False, env=environment
        )
        assert (done.returncode, done.stderr) == (0, b""), words
        assert done.stdout.isascii(), words
    listed = subprocess.run(
        [*WAYBOOK, "plans"], capture_output=True, check=True, env=environment
    ).stdout.decode()
    assert "Gr??e der Elbe > Fund v" in listed


def test_mcp_command_answers_all_calls_before_exit(terminal: Terminal) -> None:
    version = {"protocolVersion": "2025-06-18", "capabilities": {}}
    client: dict[str, object] = {**version, "clientInfo": {"name": "pipe", "version": "1"}}
    requests: list[tuple[str, dict[str, object]]] = [
        ("initialize", client),
        ("tools/call", {"name": "ping", "arguments": {}}),
        ("tools/call", {"name": "list_active_plans", "arguments": {}}),
    ]
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for number, (method, params) in enumerate(requests)
    ]
    done = subprocess.run(
        [*WAYBOOK, "mcp", "--data-dir", terminal.data_dir],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers) == [0, 1, 2]
    assert all("result" in answer for answer in answers.values())
    assert not answers[2]["result"]["isError"]


def test_mcp_command_prints_no_traceback_if_input_ends_immediately(empty: Path) -> None:
    calls = (
        {"name": "get_next_step", "arguments": {"waitSeconds": wait_seconds}}
        for wait_seconds in (0, 55)
    )
    lines = (
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        for call in calls
    )
    for text in ("", *lines):
        done = subprocess.run(
            [*WAYBOOK, "mcp", "--data-dir", empty],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
