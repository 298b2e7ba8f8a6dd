"""Test of the Gemini CLI extension, which must complete a plan although the client is killed.

The real client with the real extension and a scripted model works on a plan of thirteen steps. Each
prompt starts a new conversation, and the client is killed once: `make harness NAME=plugins`.
"""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Final

from embedded_postgres.data_directories import make_data_directory
from node_packages import NODE
from plugin_clients.claude_code import (
    MAX_TOKENS,
    ROOT,
    STEPS,
    Client,
    Interruption,
    check,
    create_plan,
    longest_notice,
    work_through,
)
from plugin_clients.gemini_server import GeminiModel, serve_gemini

EXTENSION: Final = ROOT / "build" / "plugins" / "gemini-cli"
SETTINGS: Final = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "tools": {"allowed": ["mcp_waybook_get_next_step", "mcp_waybook_submit_step_result"]},
    "general": {"enableAutoUpdate": False},
    "privacy": {"usageStatisticsEnabled": False},
}


class GeminiClient(Client):
    """Gemini CLI with a home directory of its own, the extension, and no other settings."""

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "GEMINI_API_KEY": "local",
            "GOOGLE_GEMINI_BASE_URL": self.url,
            # The working directory is an empty directory of this test, so it can be trusted.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def command(self, text: str, session: str | None) -> list[str]:
        """Return the command line for a prompt, which starts a new conversation."""
        del session
        node = str(NODE / "bin" / "node")
        return [node, self.program, "--model", "gemini-2.5-flash", "-p", text]

    def conversation(self, output: str) -> str | None:
        """Return None, because a prompt cannot continue a conversation."""
        del output
        return None

    def install(self) -> None:
        """Install the extension in the home directory of this client."""
        settings = self.home / ".gemini"
        shutil.copytree(EXTENSION, settings / "extensions" / "waybook")
        (settings / "settings.json").write_text(json.dumps(SETTINGS), "utf-8")


def main(program: str) -> None:
    with make_data_directory() as place, tempfile.TemporaryDirectory() as home:
        model = GeminiModel()
        with serve_gemini(model) as url:
            client = GeminiClient(program, Path(home), place / "data", url)
            client.install()
            interruption = Interruption(client)
            model.before_answer = interruption.before_answer
            plan_id = create_plan(client)
            events = work_through(client, plan_id)
            check(client, model.calls, plan_id)
        held = [t for c in model.contexts for t in c if "You still hold step" in t]
        longest = longest_notice(model.contexts)
    assert interruption.is_done
    assert held, "the AfterAgent hook never stopped the agent from ending its turn"
    assert longest <= MAX_TOKENS
    print("Gemini CLI:", ", ".join(events))  # noqa: T201 - the result of the command
    print(f"{STEPS} steps, each submitted once; longest notice {longest} tokens")  # noqa: T201
