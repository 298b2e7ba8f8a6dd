"""Plugins for Claude Code, Gemini CLI and Codex: their manifests, hooks and texts."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plugins.hook_process import HOOK, ROOT
from waybook.cli.app import app
from waybook.cli.commands.plugin import ENTRIES
from waybook.plugins.waybook_hook import EVENTS
from waybook.transport.mcp.tools import published_tools

PLUGINS = HOOK.parent
CLAUDE = PLUGINS / "claude-code"
GEMINI = PLUGINS / "gemini-cli"
#: Events for which no plugin may have a hook: a hook for `SubagentStop` would also run when a
#: conversation is compacted.
NEVER = {"SubagentStop"}


def read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text("utf-8"))


def commands_of(folder: Path) -> dict[str, list[dict[str, Any]]]:
    events = read(folder / "hooks" / "hooks.json")["hooks"]
    return {
        name: [h for group in groups for h in group["hooks"]] for name, groups in events.items()
    }


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for the files that `waybook plugin` writes."""
    monkeypatch.setenv("WAYBOOK_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data" / "plugins"


@pytest.mark.parametrize("client", ["claude-code", "gemini-cli"])
def test_plugin_command_writes_hook_and_the_same_entry_as_connect(
    written: Path, client: str
) -> None:
    folder = written / client
    copy = folder / "hooks" / HOOK.name
    for _ in range(2):
        assert CliRunner().invoke(app, ["plugin", client]).exit_code == 0
        assert copy.read_bytes() == HOOK.read_bytes()
        copy.write_text("an older version", "utf-8")
    reader, name = ENTRIES[client]
    entry = reader.read((folder / name).read_text("utf-8")) or {}
    printed = CliRunner().invoke(app, ["connect", client.removesuffix("-cli"), "--print"]).stdout
    assert entry == json.loads(printed)["mcpServers"]["waybook"]
    assert Path(entry["command"]).is_absolute()
    for hook in (hook for hooks in commands_of(folder).values() for hook in hooks):
        assert re.fullmatch(
            r'python3 -I -S "\$\{\w+\}/hooks/waybook_hook\.py"( \|\| true)?', hook["command"]
        )
        assert hook["timeout"]


def test_claude_and_gemini_plugins_together_handle_every_hook_event() -> None:
    assert set(commands_of(CLAUDE)) == {"SessionStart", "PreCompact", "Stop"}
    assert set(commands_of(CLAUDE)) | set(commands_of(GEMINI)) == set(EVENTS)
    assert not NEVER & set(EVENTS)


def test_gemini_hook_never_exits_with_error() -> None:
    # Gemini CLI denies the event after every exit code except 0 and 1, even if the program of the
    # hook is missing.
    hooks = [hook for hooks in commands_of(GEMINI).values() for hook in hooks]
    assert all(hook["command"].endswith(" || true") for hook in hooks)


@pytest.mark.parametrize(
    "path",
    [
        CLAUDE / ".claude-plugin" / "plugin.json",
        GEMINI / "gemini-extension.json",
        PLUGINS / "mcpb" / "manifest.json",
        ROOT / "server.json",
    ],
    ids=lambda path: path.name,
)
def test_plugin_manifests_have_the_name_and_version_of_the_package(path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    manifest = read(path)
    assert manifest["name"].split("/")[-1] == project["name"]
    assert manifest["version"] == project["version"]
    assert all(package["version"] == project["version"] for package in manifest.get("packages", []))
    # The plugin registry refuses descriptions of more than 100 characters.
    assert len(manifest["description"]) <= 100


def test_plugin_marketplace_file_lists_the_claude_code_plugin() -> None:
    (plugin,) = read(PLUGINS / ".claude-plugin" / "marketplace.json")["plugins"]
    assert (PLUGINS / plugin["source"]).resolve() == CLAUDE


def test_plugin_texts_for_agents_mention_only_existing_tools() -> None:
    texts = [*(CLAUDE / "commands").glob("*.md"), *(CLAUDE / "skills").rglob("SKILL.md")]
    assert {path.stem for path in texts} == {"plan", "next", "review", "SKILL"}
    statuses = {"plan_complete", "step_ready", "awaiting_review"}
    named = {
        name
        for path in texts
        for name in re.findall(r"`([a-z]+_[a-z_]+)`", path.read_text("utf-8"))
    }
    assert named - statuses <= set(published_tools())
    in_hook = set(re.findall(r"\b((?:get|submit|request)_[a-z_]+)\b", HOOK.read_text("utf-8")))
    assert in_hook <= set(published_tools())


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini-cli"])
def test_plugin_command_prints_only_paths_that_exist(written: Path, client: str) -> None:
    done = CliRunner().invoke(app, ["plugin", client])
    assert done.exit_code == 0
    folders = "|".join(re.escape(str(folder)) for folder in (PLUGINS, written))
    paths = re.findall(rf"(?:{folders})[\w./-]*", done.output)
    assert paths
    assert all(Path(path).exists() for path in paths)


def test_plugin_command_for_codex_prints_configuration_and_trust_notice() -> None:
    text = CliRunner().invoke(app, ["plugin", "codex"]).output
    lines = text[text.index("[mcp_servers") : text.index("Codex skips hooks")]
    config = tomllib.loads(lines)
    entry = config["mcp_servers"]["waybook"]
    printed = CliRunner().invoke(app, ["connect", "codex", "--print"]).stdout
    assert entry == tomllib.loads(printed)["mcp_servers"]["waybook"]
    assert Path(entry["command"]).is_absolute()
    assert entry["required"] is True
    assert set(config["hooks"]) == {"SessionStart", "Stop"}
    assert "state" not in config["hooks"]
    assert "Codex skips hooks that you have not trusted, without a message." in text


def test_plugin_command_for_an_unknown_client_lists_the_known_clients() -> None:
    done = CliRunner().invoke(app, ["plugin", "other"])
    assert done.exit_code == 2
    assert "'claude-code', 'codex', 'gemini-cli'" in done.output
