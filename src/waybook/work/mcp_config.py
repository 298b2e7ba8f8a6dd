"""Waybook as an MCP server in the configuration of an agent; secrets are in files and variables."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from waybook.json_values import Json
from waybook.work.adapters import Adapter

START_SECONDS: Final = 60


def configure(
    adapter: Adapter, server: Mapping[str, Any], file: Path
) -> tuple[list[str], dict[str, str]]:
    """Write the file that the agent reads; return further flags and variables of the agent.

    `server` has `command`, `args` and `env`, or `url` and `headers`.
    """
    if adapter.mcp_form == "codex":
        return _codex(server)
    content: Json
    match adapter.mcp_form:
        case "gemini":
            return [], {"GEMINI_CLI_HOME": str(_gemini_home(server, file.parent / "gemini"))}
        case "opencode":
            content = {"mcp": {"waybook": _opencode(server)}}
            variable = "OPENCODE_CONFIG"
        case _:
            kind = "http" if "url" in server else "stdio"
            content = {"mcpServers": {"waybook": {"type": kind, **server}}}
            variable = "WAYBOOK_MCP_CONFIG"
    file.write_text(json.dumps(content), "utf-8")
    return [], {variable: str(file)}


def _codex(server: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return configuration values that name variables, because flags are visible to everyone."""
    settings: dict[str, Json] = {"required": True, "startup_timeout_sec": START_SECONDS}
    variables: dict[str, str] = dict(server.get("env", {}))
    if "url" in server:
        names: dict[str, Json] = {}
        for number, (header, value) in enumerate(server.get("headers", {}).items()):
            variable = f"WAYBOOK_MCP_HEADER_{number}"
            names[header], variables[variable] = variable, value
        settings["url"] = server["url"]
        if names:
            settings["env_http_headers"] = names
    else:
        settings |= {"command": server["command"], "args": server.get("args", [])}
        settings["env_vars"] = list(variables)
    flags = [f"mcp_servers.waybook.{name}={_toml(value)}" for name, value in settings.items()]
    return [word for flag in flags for word in ("-c", flag)], variables


def _gemini_home(server: Mapping[str, Any], home: Path) -> Path:
    """Return a home folder with the user's settings and Waybook, which links to everything else.

    Gemini CLI reads servers from no flag, and from no other file that an ordinary user may write.
    """
    real_home = Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini"
    (real_home / "tmp").mkdir(parents=True, exist_ok=True)  # It keeps the conversations.
    ours = home / ".gemini"
    ours.mkdir(parents=True)
    settings: dict[str, Any] = {}
    for entry in real_home.iterdir():
        if entry.name != "settings.json":
            (ours / entry.name).symlink_to(entry)
        else:
            with suppress(ValueError):
                settings = json.loads(entry.read_text("utf-8"))
    entry_of_server = {**server, "trust": True, "timeout": START_SECONDS * 1000}
    if "url" in server:
        entry_of_server["httpUrl"] = entry_of_server.pop("url")
    servers = {**settings.get("mcpServers", {}), "waybook": entry_of_server}
    text = json.dumps({**settings, "mcpServers": servers})
    (ours / "settings.json").write_text(text, "utf-8")
    return home


def _toml(value: Json) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def _opencode(server: Mapping[str, Any]) -> Json:
    common: dict[str, Json] = {"enabled": True, "timeout": START_SECONDS * 1000}
    if "url" in server:
        return {
            "type": "remote",
            "url": server["url"],
            "headers": server.get("headers", {}),
        } | common
    command = [server["command"], *server.get("args", [])]
    return {"type": "local", "command": command, "environment": server.get("env", {})} | common
