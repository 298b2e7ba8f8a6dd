"""Parameters of a compatibility test: the Waybook server, the scripted model and the prompt.

The test script runs in the client's own Python environment, so this module imports only the
standard library.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trial:
    """Test of a client over a transport."""

    name: str
    #: Either "stdio" or "http".
    transport: str
    #: Command and environment variables with which the client starts `waybook mcp`, over stdio.
    command: list[str]
    environment: dict[str, str]
    #: URL of `waybook serve` for MCP, over HTTP.
    url: str
    #: Base URL of the scripted model, without a version such as `/v1`.
    model_url: str
    prompt: str
    #: Folder with the installed client, and empty folder in which the client runs.
    installed: str
    workplace: str

    @property
    def is_stdio(self) -> bool:
        return self.transport == "stdio"

    @property
    def openai_url(self) -> str:
        """Return the base URL of the scripted model's OpenAI API."""
        return f"{self.model_url}/v1"

    def write(self, path: str, text: str) -> Path:
        """Write a configuration file into the client's working folder; return its path."""
        file = Path(self.workplace) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


def read_trial() -> Trial:
    return Trial(**json.loads(sys.argv[1]))
