"""MCP clients to test with Waybook: packages, test scripts, transports and known failures."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
LOCKS: Final = ROOT / "requirements" / "clients"
DRIVERS: Final = Path(__file__).parent / "drivers"

Transport = Literal["stdio", "http"]
TRANSPORTS: Final[Sequence[Transport]] = ("stdio", "http")


@dataclass(frozen=True, slots=True)
class Client:
    """MCP client or agent framework to test; a lock file pins its packages."""

    name: str
    label: str
    #: Package whose version is shown in the table of results.
    package: str
    ecosystem: Literal["python", "npm"] = "python"
    remarks: str = ""
    #: True if the client includes an agent, which may pass the server's instructions on to the
    #: model.
    has_agent: bool = True
    #: For each transport on which the client fails, the known bug that is the reason.
    known_failures: Mapping[Transport, str] = field(default_factory=dict)

    @property
    def driver(self) -> Path:
        """Return the script that runs a test of this client."""
        return DRIVERS / f"drive_{self.name.replace('-', '_')}.py"

    @property
    def lock(self) -> Path:
        if self.ecosystem == "npm":
            return LOCKS / self.name / "package-lock.json"
        return LOCKS / f"{self.name}.lock"

    @property
    def version(self) -> str:
        text = self.lock.read_text(encoding="utf-8")
        if self.ecosystem == "npm":
            version: str = json.loads(text)["packages"][f"node_modules/{self.package}"]["version"]
            return version
        match = re.search(rf"^{re.escape(self.package)}==(\S+)", text, re.MULTILINE)
        if match is None:
            raise LookupError(
                f"{self.lock} does not pin {self.package}; run `make harness NAME=lock-clients`"
            )
        return match[1]


CLIENTS: Final[Sequence[Client]] = (
    Client(
        "claude-code",
        "Claude Code",
        "@anthropic-ai/claude-code",
        "npm",
        remarks="`claude -p` needs `--allowedTools mcp__waybook`.",
    ),
    Client(
        "codex",
        "Codex",
        "@openai/codex",
        "npm",
        remarks="Needs `required = true` where the server starts slowly, and `approval_mode` for "
        "`submit_user_decision` in `codex exec`: see below.",
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        "@google/gemini-cli",
        "npm",
        remarks='Without a terminal it needs `"trust": true` in the entry of the server.',
    ),
    Client(
        "qwen-code",
        "Qwen Code",
        "@qwen-code/qwen-code",
        "npm",
        remarks="Shows the beginning of each description; the model reads schemas with "
        '`tool_search` and calls with `tool_call`. Without a terminal it needs `"trust": true`.',
    ),
    Client("opencode", "OpenCode", "opencode-linux-x64", "npm"),
    Client("continue", "Continue", "@continuedev/cli", "npm"),
    Client(
        "pydantic-ai",
        "pydantic-ai",
        "pydantic-ai-slim",
        remarks="`MCPToolset(…, include_instructions=True)` shows the instructions.",
    ),
    Client("openai-agents", "openai-agents", "openai-agents"),
    Client("langchain", "LangChain", "langchain"),
    Client("langgraph", "LangGraph", "langgraph"),
    Client("crewai", "CrewAI", "crewai"),
    Client(
        "autogen",
        "AutoGen",
        "autogen-agentchat",
        remarks="Needs `mcp<2`: autogen-ext cannot be imported with version 2 of the MCP SDK.",
    ),
    Client("google-adk", "Google ADK", "google-adk"),
    Client(
        "smolagents",
        "smolagents",
        "smolagents",
        remarks="Needs `mcp<2`: mcpadapt cannot be imported with version 2 of the MCP SDK. "
        "Declares every argument as required, so the model must fill in the optional ones; an "
        "empty text means absent.",
    ),
    Client(
        "llama-index",
        "LlamaIndex",
        "llama-index-tools-mcp",
        remarks="Over stdio it starts a server for every call: HTTP is faster.",
    ),
    Client("mcp-use", "mcp-use", "mcp-use"),
    Client("agno", "Agno", "agno", remarks="Needs `fastmcp`."),
    Client("strands", "Strands Agents", "strands-agents"),
    Client(
        "agent-framework",
        "Microsoft Agent Framework",
        "agent-framework-core",
        remarks="Its MCP client needs `tenacity`, which the package does not declare.",
    ),
    Client("haystack", "Haystack", "haystack-ai"),
    Client("deepagents", "deepagents", "deepagents"),
    Client(
        "dspy",
        "DSPy",
        "dspy",
        remarks="`ReActV2`, with a model that DSPy knows to support tool calls. "
        "Declares every argument as required, like smolagents.",
    ),
    Client(
        "ai-sdk",
        "AI SDK",
        "ai",
        "npm",
        remarks="Over stdio it needs `protocolVersionDiscovery: false` where the server takes more "
        "than a second to start.",
    ),
    Client("mastra", "Mastra", "@mastra/core", "npm"),
    Client("fastmcp", "fastmcp", "fastmcp", has_agent=False),
    Client("mcp", "MCP SDK", "mcp", has_agent=False),
)
#: Clients that CI tests: the two programs with the most users, and two frameworks.
CI: Final[Sequence[str]] = ("claude-code", "codex", "pydantic-ai", "langgraph")


def select(names: Sequence[str]) -> Sequence[Client]:
    """Return the clients with these names; without names, return all.

    Raises:
        LookupError: the catalog has no client with one of the names.
    """
    known = {client.name: client for client in CLIENTS}
    if unknown := [name for name in names if name not in known]:
        raise LookupError(f"There is no client {', '.join(unknown)}; there are: {', '.join(known)}")
    return [known[name] for name in names] or CLIENTS
