"""`waybook connect` writes the configuration of a client and tests it with a real call."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cli.terminal import Terminal
from preloaded_process import open_serve

BROKEN = '{\n  "mcpServers": {,\n}'
OTHERS = '{\n    "theme": "dark",\n    "mcpServers": {\n        "x": {"command": "x"}\n    }\n}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty directory the home and the current directory; return it."""
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "APPDATA", "WAYBOOK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files_in(home: Path) -> list[str]:
    names = [path for path in home.rglob("*") if path.is_file()]
    return sorted(str(path.relative_to(home)) for path in names)


@pytest.mark.parametrize(
    ("client", "file"),
    [
        ("claude-code", ".claude.json"),
        ("codex", ".codex/config.toml"),
        ("opencode", ".config/opencode/opencode.json"),
    ],
)
def test_connect_writes_config_that_starts_a_working_server(
    terminal: Terminal, home: Path, client: str, file: str
) -> None:
    place = ("--data-dir", str(terminal.data_dir))
    shown = terminal.say("connect", client, *place, typed="y\n")
    text = (home / file).read_text()
    tables = tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    ((_, servers),) = tables.items()
    entry = servers["waybook"]
    command = entry["command"]
    program, *arguments = [*command] if client == "opencode" else [command, *entry["args"]]
    assert Path(program).is_absolute()
    assert arguments == ["mcp", *place]
    assert "✓ initialize: waybook " in shown
    assert re.search(r"✓ tools/list: \d+ tools: .*get_next_step", shown)
    assert "✓ ping: the database answered at 20" in shown
    removed = terminal.say("connect", client, "--remove", "--yes")
    assert f"deleted {home / file}" in removed
    assert files_in(home) == []
    assert "is not connected" in terminal.say("connect", client, "--remove", "--yes")


def place_setting(home: Path, name: str, value: str) -> None:
    """Write a setting to the configuration file of the server that the client starts."""
    file = home / ".config" / "waybook" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{name} = {json.dumps(value)}\n")


def test_plugin_install_for_codex_writes_hooks_and_calls_the_server(
    terminal: Terminal, home: Path
) -> None:
    place_setting(home, "data_dir", str(terminal.data_dir))
    file = home / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text('model = "m"\n')
    shown = terminal.say("plugin", "codex", "--install", typed="y\n")
    assert "✓ ping: the database answered at 20" in shown
    assert "trust them" in shown
    written = tomllib.loads(file.read_text())
    assert written["mcp_servers"]["waybook"]["required"] is True
    (hook,) = (hook for group in written["hooks"]["Stop"] for hook in group["hooks"])
    assert Path(hook["command"].split()[-1]).is_file()
    assert "is already connected" in terminal.say("plugin", "codex", "--install", "--yes")
    assert tomllib.loads(file.read_text()) == written
    terminal.say("connect", "codex", "--remove", "--yes")
    assert file.read_text() == 'model = "m"\n'


def make_program(folder: Path, name: str, body: str) -> None:
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


def test_plugin_install_runs_the_client_program_and_pings_the_server(
    terminal: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place_setting(home, "data_dir", str(terminal.data_dir))
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/usr/bin:/bin")
    missing = terminal.run("plugin", "claude-code", "--install")
    assert "claude is not on your PATH" in missing.stderr
    make_program(home / "bin", "claude", 'echo "$@" >> "$HOME/calls"')
    shown = terminal.say("plugin", "claude-code", "--install")
    calls = (home / "calls").read_text().splitlines()
    assert [call.split()[:3] for call in calls] == [
        ["plugin", "marketplace", "add"],
        ["plugin", "install", "waybook@waybook"],
    ]
    assert "✓ ping: the database answered at 20" in shown


def test_plugin_install_reports_failure_of_client_program_or_server(
    terminal: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}/usr/bin:/bin")
    make_program(home / "bin", "gemini", "exit 3")
    assert "gemini exited with 3" in terminal.run("plugin", "gemini-cli", "--install").stderr
    make_program(home / "bin", "gemini", "exit 0")
    place_setting(home, "tools", "none")
    failed = terminal.run("plugin", "gemini-cli", "--install")
    assert failed.exit_code == 1
    assert "its server did not answer" in failed.stderr
    assert "waybook doctor" in failed.stderr


def test_second_connect_with_same_options_leaves_file_unchanged(
    terminal: Terminal, home: Path
) -> None:
    file = home / ".mcp.json"
    file.write_text(OTHERS)
    place = ("--data-dir", str(terminal.data_dir))
    words = ("connect", "claude-code", "--scope", "project", "--yes", *place)
    assert "do not commit it" in terminal.say(*words)
    connected = file.read_text()
    again = terminal.say(*words)
    assert "is already connected in" in again
    assert "✓ ping" in again
    assert file.read_text() == connected
    assert (home / ".mcp.json.waybook-backup").read_text() == OTHERS
    terminal.say("connect", "claude-code", "--scope", "project", "--remove", "--yes")
    assert file.read_text() == OTHERS
    assert files_in(home) == [".mcp.json"]


def test_connect_writes_nothing_if_user_answers_no(terminal: Terminal, home: Path) -> None:
    file = home / ".gemini" / "settings.json"
    file.parent.mkdir()
    file.write_text("{ // theirs\n}")
    refused = terminal.run("connect", "gemini", typed="n\n")
    assert refused.exit_code == 1
    assert f"Change {file}:" in refused.output
    assert '+  "mcpServers": {' in refused.output
    assert file.read_text() == "{ // theirs\n}"
    assert files_in(home) == [".gemini/settings.json"]


def test_connect_names_line_of_broken_config_and_changes_nothing(
    terminal: Terminal, home: Path
) -> None:
    (home / ".claude.json").write_text(BROKEN)
    for words in ((), ("--remove",)):
        failed = terminal.run("connect", "claude-code", "--yes", *words)
        assert failed.exit_code == 1
        assert "line 2: this is not JSON" in failed.stderr
        assert "nothing was changed" in failed.stderr
        assert "waybook connect claude-code --print" in failed.stderr
    assert (home / ".claude.json").read_text() == BROKEN
    assert files_in(home) == [".claude.json"]
    assert '"waybook"' in terminal.say("connect", "claude-code", "--print")


def test_connect_remove_keeps_later_changes_and_writes_a_backup(
    terminal: Terminal, home: Path
) -> None:
    file = home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(OTHERS)
    # No server answers, but the configuration is written.
    terminal.run("connect", "cursor", "--http", "http://127.0.0.1:9", "--yes")
    assert '"waybook"' in file.read_text()
    file.write_text(file.read_text().replace('"dark"', '"light"'))
    terminal.say("connect", "cursor", "--remove", "--yes")
    assert file.read_text() == OTHERS.replace('"dark"', '"light"')
    assert '"waybook"' in (home / ".cursor" / "mcp.json.waybook-backup").read_text()


def test_connect_fails_and_keeps_config_if_server_does_not_answer(
    terminal: Terminal, home: Path
) -> None:
    words = ("connect", "vscode", "--scope", "project", "--http", "http://127.0.0.1:9", "--yes")
    failed = terminal.run(*words)
    assert failed.exit_code == 1
    assert "its server did not answer" in failed.stderr
    assert "waybook connect vscode --scope project --remove" in failed.stderr
    entry = json.loads((home / ".vscode" / "mcp.json").read_text())["servers"]["waybook"]
    assert entry == {"type": "http", "url": "http://127.0.0.1:9/mcp"}


def test_connect_over_http_calls_the_running_server(terminal: Terminal, home: Path) -> None:
    with open_serve("--data-dir", str(terminal.data_dir)) as (_, url):
        shown = terminal.say("connect", "codex", "--http", url, "--yes")
    assert "✓ ping: the database answered at" in shown
    written = tomllib.loads((home / ".codex" / "config.toml").read_text())
    assert written["mcp_servers"]["waybook"] == {"url": f"{url}/mcp"}


def test_connect_hides_token_and_names_token_variable(
    terminal: Terminal, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("connect", "claude-code", "--http", "http://127.0.0.1:9", "--yes")
    literal = terminal.run(*words, "--token", "s3cret-s3cret")
    assert "s3cret" not in literal.output
    assert authorization(home) == "Bearer s3cret-s3cret"
    assert (home / ".claude.json").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("WAYBOOK_TOKEN", "s3cret-s3cret")
    terminal.run(*words)
    assert authorization(home) == "Bearer ${WAYBOOK_TOKEN}"
    shown = terminal.run("connect", "opencode", *words[2:]).output
    assert "Bearer {env:WAYBOOK_TOKEN}" in shown
    assert "Authorization" not in terminal.run("connect", "continue", *words[2:]).output


def authorization(home: Path) -> Any:  # noqa: ANN401 - JSON
    """Return the authorization header in the configuration of Claude Code."""
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["waybook"]
    return entry["headers"]["Authorization"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("claude-desktop", "--http", "http://127.0.0.1:9"), "leave --http out"),
        (("claude-desktop", "--scope", "project"), "use --scope user"),
        (("codex", "--token", "t"), "add --http URL"),
        (("codex", "--http", "ftp://x"), "is not an HTTP URL"),
        (("codex", "--http", "http://[::1"), "is not a URL"),
        (("codex", "--http", "http://x", "--tools", "all"), "belong to the server"),
        (("codex", "--http", "http://x", "--token", "t", "--scope", "project"), "WAYBOOK_TOKEN"),
        (("notepad",), "notepad"),
    ],
)
def test_connect_rejects_contradicting_options_as_usage_errors(
    terminal: Terminal, home: Path, words: tuple[str, ...], message: str
) -> None:
    refused = terminal.run("connect", *words, "--yes", columns=200)
    assert refused.exit_code == 2
    assert message in refused.stderr
    assert files_in(home) == []


def test_connect_for_chatgpt_and_generic_client_only_prints_config(
    terminal: Terminal, home: Path
) -> None:
    assert "https://YOUR_HOST/mcp" in terminal.say("connect", "chatgpt")
    generic = json.loads(terminal.say("connect", "generic", "--tools", "all"))
    assert generic["mcpServers"]["waybook"]["args"] == ["mcp", "--tools", "all"]
    assert files_in(home) == []
