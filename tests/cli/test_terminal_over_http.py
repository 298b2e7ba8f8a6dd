"""Commands for people against a server with tokens, over HTTP."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cli.stdio_client import find_free_port
from cli.terminal import Terminal
from patience import PATIENCE_SECONDS
from preloaded_process import open_serve
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.cli.app import app
from waybook.cli.commands import nouns
from waybook.cli.lazy import CommandGroup
from waybook.cli.terminal import rows

#: Maximum number of modules that `plan list` loads, with those of Python itself.
MAX_MODULES = 200


NO_SUCH_ADDRESS = b'{"error":{"code":"NOT_FOUND","message":"There is nothing at this address."}}'


class Away:
    """A terminal whose commands use a server over HTTP, with a home of its own."""

    def __init__(self, home: Path, url: str, token: str) -> None:
        self.url, self.token = url, token
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("WAYBOOK_", "XDG_"))}
        self.environment = {
            **inherited,
            "HOME": str(home),
            "WAYBOOK_CONFIG": str(home / "config.toml"),
            "NO_COLOR": "1",
        }
        self.login = home / "login.json"

    def run(self, *words: str, typed: str | None = None, **variables: str) -> Result:
        gone = {"WAYBOOK_DATA_DIR": None, "WAYBOOK_TOKEN": None, "WAYBOOK_DATABASE_URL": None}
        environment: Mapping[str, str | None] = {**gone, **self.environment, **variables}
        return CliRunner().invoke(app, words, input=typed, env=environment)

    def say(self, *words: str, typed: str | None = None) -> str:
        result = self.run(*words, typed=typed)
        assert result.exit_code == 0, result.output
        return result.output

    def fields(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self.say(*words, "--json", "all"))

    def process(self, *words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "waybook", *words],
            env={**self.environment, **variables},
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )


@pytest.fixture(scope="module")
def away(terminal: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Away]:
    terminal.say("user", "add", "ann", "--scope", "admin")
    scopes = [
        word
        for scope in ("plan:write", "run:write", "review", "admin")
        for word in ("--scope", scope)
    ]
    token = terminal.json_output("token", "add", "ann", "--label", "laptop", *scopes)["token"]
    variables = {
        "WAYBOOK_DATA_DIR": str(terminal.data_dir),
        "WAYBOOK_CONFIG": str(terminal.data_dir / "no-config.toml"),
    }
    with open_serve("--auth", "required", "--tools", "all", **variables) as (_, url):
        away = Away(tmp_path_factory.mktemp("home"), url, token)
        away.say("login", url, "--token", token)
        yield away


# Tests of the login.


def test_login_is_stored_in_a_file_only_for_the_owner(away: Away) -> None:
    assert stat.S_IMODE(away.login.stat().st_mode) == 0o600
    assert json.loads(away.login.read_text()) == {"url": away.url, "token": away.token}
    assert away.say("login").strip() == away.url


def test_login_with_a_wrong_token_names_the_next_step_and_stores_nothing(away: Away) -> None:
    before = away.login.read_text()
    failed = away.run("login", away.url, "--token", "wb_wrong")
    assert failed.exit_code == 1
    assert f"✗ {away.url} does not accept your token" in failed.stderr
    assert f"try: waybook login {away.url}" in failed.stderr
    assert away.login.read_text() == before


def test_login_without_token_or_terminal_says_how_to_pass_a_token(away: Away) -> None:
    failed = away.run("login", away.url)
    assert failed.exit_code == 1
    assert "requires a token" in failed.stderr
    assert "WAYBOOK_TOKEN" in failed.stderr


def test_login_reads_the_token_from_stdin(away: Away, tmp_path: Path) -> None:
    place = {"WAYBOOK_CONFIG": str(tmp_path / "config.toml")}
    assert away.run("login", away.url, "--token", "-", typed=away.token, **place).exit_code == 0
    assert json.loads((tmp_path / "login.json").read_text())["token"] == away.token
    assert "logged out" in away.run("logout", **place).output
    assert not (tmp_path / "login.json").exists()


def test_variables_select_a_server_without_a_login(away: Away, tmp_path: Path) -> None:
    variables = {
        "WAYBOOK_CONFIG": str(tmp_path / "config.toml"),
        "WAYBOOK_SERVER": away.url,
        "WAYBOOK_TOKEN": away.token,
    }
    assert away.run("call", "ping", **variables).exit_code == 0


# Tests of errors.


def test_unreachable_server_is_reported_without_a_traceback(away: Away) -> None:
    gone = f"http://127.0.0.1:{find_free_port()}"
    done = away.process("plan", "list", WAYBOOK_SERVER=gone)
    assert done.returncode == 1
    assert f"✗ cannot reach {gone}: Connection refused".encode() in done.stderr
    assert b"waybook login URL" in done.stderr
    assert b"Traceback" not in done.stderr


def test_missing_plan_is_reported_with_the_list_command(away: Away) -> None:
    failed = away.run("plan", "view", "no such plan")
    assert failed.exit_code == 1
    assert "there is no plan “no such plan” here" in failed.stderr
    assert "try: waybook plan list" in failed.stderr


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, NO_SUCH_ADDRESS, "is an older version"),
        (200, b"<html>", "not as a Waybook server"),
        (302, b"", "not as a Waybook server"),
        (502, b"<html>", "answered with status 502"),
        (503, b'{"error":{"code":"BUSY","message":"try later"}}', "BUSY: try later"),
    ],
)  # fmt: skip
def test_unexpected_answers_of_a_server_are_explained(
    away: Away, status: int, body: bytes, message: str
) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        failed = away.run("plan", "list", WAYBOOK_SERVER=address)
    assert failed.exit_code == 1
    assert message in failed.stderr


@pytest.mark.parametrize(
    ("words", "suggested"),
    [("plann list", "plan"), ("plan lsit", "list"), ("run wacth", "watch"), ("stauts", "status")],
)
def test_unknown_command_suggests_a_similar_command(away: Away, words: str, suggested: str) -> None:
    failed = away.run(*words.split())
    assert failed.exit_code == 2
    assert f"Did you mean {suggested}?" in failed.stderr


# Tests of every verb.


def test_plan_verbs_work_over_http(away: Away, terminal: Terminal) -> None:
    plan_id = terminal.plan("Danube")
    assert plan_id in away.say("plan", "list", "Danube")
    (row,) = away.fields("plan", "list", "Danube")
    assert (row["planId"], row["status"]) == (plan_id, "planning")
    view = away.fields("plan", "view", "danube")
    assert [step["title"] for step in view["steps"]] == ["Part 1", "Part 2", "Part 3"]
    assert "0 of 3 done" in away.say("plan", "watch", plan_id, "--once")

    step = terminal.take(plan_id)
    away.say("plan", "reassign", plan_id, "1")
    assert away.fields("plan", "view", plan_id)["steps"][0]["status"] == "pending"
    step = terminal.take(plan_id)
    failure = {"action": "fail_step", "stepId": step["stepId"], "reason": "gone"}
    terminal.call("modify_plan", planId=plan_id, modifications=[failure])
    assert "step 1" in away.say("plan", "retry", plan_id)
    refused = away.run("plan", "retry", plan_id)
    assert (refused.exit_code, "has no failed step" in refused.stderr) == (1, True)

    assert "/shared/" in away.say("plan", "share", plan_id, "--days", "2")
    copy = away.say("plan", "copy", plan_id, "--name", "Danube again").split()[-1]
    assert away.fields("plan", "view", copy)["name"] == "Danube again"
    away.say("plan", "cancel", copy, "--reason", "Not needed.")
    (row,) = away.fields("plan", "list", "Danube again", "--state", "canceled")
    assert row["planId"] == copy


def test_comment_verbs_write_show_and_resolve_over_http(away: Away) -> None:
    run_id = away.say("run", "start", "dialectic", "Oder", "Why?", "--models", "a").split()[-1]
    away.say("plan", "start", "-", "--yes", typed="# Oder\n\n- [ ] Find the source\n")
    for words in (["run", "comment", run_id], ["plan", "comment", "Oder", "--step", "1"]):
        assert "No open comments." in away.say(*words)
        away.say(*words, "Is it long, @ann?", "--assign", "ann")
        shown = away.say(*words)
        assert ("ann, for ann" in shown, "  Is it long, @ann?" in shown) == (True, True)
        away.say(*words, "It is.", "--resolve", shown.split()[0])
        assert "Is it long" not in away.say(*words)
    refused = away.run("plan", "comment", "Oder", "Well?", "--step", "9")
    assert (refused.exit_code, "has no step 9" in refused.stderr) == (1, True)


def test_plan_start_creates_a_plan_on_the_server(away: Away, tmp_path: Path) -> None:
    file = tmp_path / "plan.md"
    file.write_text("# Volga\n\n- [ ] Find the source\n")
    away.say("plan", "start", str(file), "--yes")
    (row,) = away.fields("plan", "list", "Volga")
    assert row["createdBy"] == "ann"


def test_workflow_verbs_work_over_http(away: Away) -> None:
    assert "dialectic" in away.say("workflow", "list")
    assert "thesis" in away.say("workflow", "view", "dialectic")
    assert "$schema" in away.say("workflow", "schema")
    definition = json.dumps(make_definition("weir", make_stage("only", make_recipe_step("level"))))
    assert "weir was added as version 1" in away.say("workflow", "add", "-", typed=definition)
    run_id = away.say("workflow", "start", "weir", "Weir", "High?", "--models", "a").split()[-1]
    assert away.fields("run", "view", run_id)["name"] == "Weir"


def test_run_verbs_work_over_http(away: Away) -> None:
    start = ("dialectic", "Rhine", "Which one?", "--models", "a,b")
    run_id = away.say("run", "start", *start).split()[-1]
    (row,) = away.fields("run", "list", "Rhine")
    assert (row["runId"], row["status"]) == (run_id, "in_progress")
    assert away.fields("run", "view", "rhine")["models"] == ["a", "b"]
    assert "0 of 5 stages" in away.say("run", "watch", run_id, "--once")
    refused = away.run("run", "retry", run_id)
    assert (refused.exit_code, "has no failed jobs" in refused.stderr) == (1, True)
    copy = away.say("run", "copy", run_id, "--name", "Rhine again").split()[-1]
    away.say("run", "cancel", copy, "--reason", "Not needed.")
    assert away.fields("run", "view", copy)["status"] == "canceled"


def call(away: Away, tool: str, **arguments: object) -> Any:  # noqa: ANN401 - JSON
    return json.loads(away.say("call", tool, json.dumps(arguments)))


def test_feedback_starts_a_stage_and_retry_resets_a_failed_job(away: Away) -> None:
    start = ("deep-research", "Oder", "Which one?", "--models", "a")
    run_id = away.say("run", "start", *start).split()[-1]
    job = call(away, "get_next_job", runId=run_id)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    call(away, "submit_job_result", **held, documents=[{"content": "# Found"}])
    assert "gather has started" in away.say("run", "feedback", run_id, "scope", "Go on.")
    job = call(away, "get_next_job", runId=run_id)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    call(away, "fail_job", **held, error="gone", retryable=False)
    away.say("run", "retry", run_id)
    assert call(away, "get_next_job", runId=run_id)["jobId"] == job["jobId"]


DECISIONS = [
    (["approve"], "executing"),
    (["modify", "--feedback", "More."], "executing"),
    (["skip"], "executing"),
    (["reject"], "failed"),
]


@pytest.mark.parametrize(("words", "status"), DECISIONS)
def test_review_verbs_decide_over_http(
    away: Away, terminal: Terminal, words: list[str], status: str
) -> None:
    plan_id = terminal.under_review("Elbe")
    assert plan_id in away.say("review", "list")
    assert "Is this enough?" in away.say("review", "view", plan_id)
    assert "Is this enough?" in away.say("review", "decide", plan_id)
    verb, *options = words
    away.say("review", verb, plan_id, *options)
    assert away.fields("plan", "view", plan_id)["status"] == status


def test_agent_verbs_work_over_http(away: Away) -> None:
    away.say("call", "get_next_step", json.dumps({"planId": make_plan(away), "sessionId": "s1"}))
    agents = away.fields("agent", "list", "s1")
    while not agents:  # The server records agents in the background.
        agents = away.fields("agent", "list", "s1")
    assert ("ann", "s1") in {(agent["name"], agent["session"]) for agent in agents}
    assert "works on\tLook." in away.say("agent", "view", "s1")


def test_work_verbs_work_over_http(away: Away) -> None:
    assert "codex: " in away.say("work", "init")
    plan_id = make_plan(away)
    agent = f"cmd:{sys.executable} -c 'print(\"Found.\")'"
    options = ["--agent", agent, "--isolation", "none"]
    away.say("work", "start", plan_id, *options)
    assert away.fields("plan", "view", plan_id)["status"] == "completed"


def test_every_verb_of_every_noun_is_tried_over_http() -> None:
    source = Path(__file__).read_text("utf-8")
    tried = set(re.findall(r'(?:away\.(?:say|fields)\(|\[)"(\w+)", "(\w+)"', source))
    tried |= {("review", words[0]) for words, _ in DECISIONS}
    groups = {name: group for name, group in vars(nouns).items() if isinstance(group, CommandGroup)}
    assert groups
    assert {(noun, verb) for noun, group in groups.items() for verb in group.table} <= tried


def make_plan(away: Away) -> str:
    step = {"stepType": "search", "title": "Look.", "instructions": "Look."}
    named = {"name": "Ruhr", "researchQuestion": "?", "steps": [step]}
    return str(json.loads(away.say("call", "create_research_plan", json.dumps(named)))["planId"])


@pytest.mark.parametrize("noun", ["plan", "run", "review", "agent", "workflow"])
def test_every_noun_lists_in_a_process_with_an_ascii_locale(
    away: Away, terminal: Terminal, noun: str
) -> None:
    if noun == "plan":
        terminal.plan("Río Negro → sea")
    done = away.process(noun, "list", LC_ALL="C", LANG="C", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


# Tests of the output.


def test_lists_in_pipes_have_tabs_and_no_decoration(away: Away, terminal: Terminal) -> None:
    plan_id = terminal.plan("A very long name of a plan " * 6)
    lines = away.process("plan", "list").stdout.decode().splitlines()
    (line,) = [line for line in lines if line.startswith(plan_id)]
    cells = line.split("\t")
    assert cells[:4] == [plan_id, ("A very long name of a plan " * 6).strip(), "ready", "0 of 3"]
    assert len(cells) == 6


def test_json_option_lists_fields_and_prints_chosen_ones(away: Away, terminal: Terminal) -> None:
    plan_id = terminal.plan("Weser")
    known = away.say("plan", "list", "Weser", "--json").split()
    assert {"planId", "name", "status", "url"} <= set(known)
    assert json.loads(away.say("plan", "list", "Weser", "--json", "planId,name")) == [
        {"planId": plan_id, "name": "Weser"}
    ]
    assert json.loads(away.say("plan", "view", plan_id, "--json", "progress")) == {"progress": 0}
    failed = away.run("plan", "list", "Weser", "--json", "nmae")
    assert failed.exit_code == 2
    assert "there is no field nmae. The fields are" in failed.stderr


def test_web_option_opens_the_page(
    away: Away, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("click.launch", opened.append)
    plan_id = terminal.plan("Oder")
    away.say("plan", "view", plan_id, "--web")
    away.say("run", "list", "--web")
    assert [url.rpartition("/")[2] for url in opened] == [plan_id, "runs"]


def test_table_uses_the_width_and_leaves_out_last_columns_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def column(name: str) -> rows.Column:
        return rows.Column(name, lambda row: row[name])

    row = {"id": "k" * 12, "name": "n" * 60, "status": "planning", "done": "3", "more": "x" * 30}
    columns = [column(name) for name in row]
    shown: Callable[[int], list[str]] = lambda width: rows.table_lines([row], columns, width)  # noqa: E731
    assert shown(200)[1].split() == [*row.values()]
    assert all(len(line) <= 90 for line in shown(90))
    assert "x" in shown(90)[1]
    assert "x" not in shown(60)[1]
    assert "…" in shown(60)[1]


def test_plan_list_over_http_loads_few_modules(away: Away) -> None:
    program = "import sys; from waybook.cli.app import main\n"
    program += "sys.argv = ['waybook', 'plan', 'list']\n"
    program += "try: main()\nfinally: print(len(sys.modules), *sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=away.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    count, *names = done.stderr.split()
    assert int(count) <= MAX_MODULES, names
    heavy = {"asyncio", "httpx2", "pydantic", "rich", "starlette", "waybook.app", "waybook.store"}
    assert heavy.isdisjoint(names)


# Tests of completion.


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("plan vi", "view"),
        ("plan view Neck", "PLAN"),
        ("plan view PLA", "PLAN"),
        ("wor", "workflow"),
    ],
)
def test_completion_offers_verbs_ids_and_names(
    away: Away, terminal: Terminal, typed: str, expected: str
) -> None:
    plan_id = terminal.plan("Neckar")
    line = f"waybook {typed.replace('PLA', plan_id[:9])}"
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = away.process(_WAYBOOK_COMPLETE="bash_complete", **variables)
    offered = [entry.partition(",")[2] for entry in done.stdout.decode().splitlines()]
    assert expected.replace("PLAN", plan_id) in offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_command_prints_the_script_of_a_shell(away: Away, shell: str) -> None:
    assert f"_WAYBOOK_COMPLETE={shell}_complete" in away.say("completion", shell)
