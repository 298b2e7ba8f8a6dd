"""Trial that a driver executes: server, model and prompt.

The module uses only the standard library.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trial:
    """Test of one client over one transport, passed to the driver on the command line."""

    name: str
    #: "stdio" or "http".
    transport: str
    #: Command and environment variables that start `waybook mcp`, for stdio.
    command: list[str]
    environment: dict[str, str]
    #: Address of the MCP endpoint of `waybook serve`, for HTTP.
    url: str
    #: Base URL of the scripted model, without the version segment of a model API.
    model_url: str
    prompt: str
    #: Folder in which the client is installed, and an empty folder to work in.
    installed: str
    workplace: str

    @property
    def is_stdio(self) -> bool:
        """Return whether the client starts the server itself."""
        return self.transport == "stdio"

    @property
    def openai_url(self) -> str:
        """Return the base URL of the model's OpenAI API."""
        return f"{self.model_url}/v1"

    def write(self, path: str, text: str) -> Path:
        """Write a configuration file below the working folder, and return its path."""
        file = Path(self.workplace) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file


def read_trial() -> Trial:
    """Return the trial that the command line describes."""
    return Trial(**json.loads(sys.argv[1]))
