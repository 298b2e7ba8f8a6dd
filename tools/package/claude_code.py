"""Test of the prompt on the quickstart page, with the real Claude Code and a scripted model.

Claude Code is installed from its lock file. The scripted model, which runs locally, does what the
prompt asks: it creates the plan, works on its steps, and ends when the plan is complete.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.clients.catalog import select
from tools.clients.install import InstallError, install
from tools.clients.model.script import Scenario
from tools.clients.model.server import Trial, serve_model
from tools.clients.run import OFFLINE

#: Plan that the prompt on the quickstart page asks for.
SCENARIO: Final = Scenario(
    "Name the library",
    "Which name fits a library for message queues?",
    [
        {"stepType": "search", "title": "Propose", "instructions": "Propose five names."},
        {"stepType": "analyze", "title": "Compare", "instructions": "Compare the names."},
        {"stepType": "synthesize", "title": "Choose", "instructions": "Choose a name."},
    ],
    {"name": "ferry"},
)
LIST_PLANS: Final = "waybook plan list --state all --json all"
LIST_AUDIT: Final = "waybook audit list --json"


@dataclass(frozen=True)
class ScriptedClaudeCode:
    """Installed Claude Code, with environment variables that let it use the scripted model."""

    trial: Trial
    environment: Mapping[str, str]

    def problems(self, prompt_command: str, run: Callable[[str], str]) -> list[str]:
        """Return messages about errors in the plan that Claude Code created.

        The function `run` executes a command in the home directory of the test and returns its
        output.
        """
        prompt = shlex.split(prompt_command)[2]
        unseen = [] if self.trial.has_shown(prompt) else ["the model never got the prompt"]
        refused = [self.trial.failure] if self.trial.failure else []
        plans, audit = json.loads(run(LIST_PLANS)), json.loads(run(LIST_AUDIT))
        return [*unseen, *refused, *plan_problems(plans, audit)]


def plan_problems(plans: Sequence[Any], audit: Sequence[Any]) -> list[str]:
    """Return a message for each way in which the plan differs from a completed one."""
    names = [plan["name"] for plan in plans]
    if names != [SCENARIO.name]:
        return [f"the plans are {names}, not [{SCENARIO.name!r}]"]
    (plan,) = plans
    problems = []
    if plan["status"] != "completed":
        problems.append(f"the plan is {plan['status']}")
    entries = [entry for entry in audit if entry["subject"] == "plan"]
    changes = [change for entry in entries for change in entry["changes"]]
    completed = [
        change["id"]
        for change in changes
        if (change["entity"], change["field"], change["to"]) == ("step", "status", "completed")
    ]
    if len(completed) != len(SCENARIO.steps):
        problems.append(f"{len(completed)} of {len(SCENARIO.steps)} steps were completed")
    origins = {f"{entry['channel']}: {entry['sessionId']}" for entry in entries}
    if origins != {f"mcp: {SCENARIO.name}"}:
        problems.append(f"the channels and sessions of its audit are {sorted(origins)}")
    return problems


@contextmanager
def scripted_claude_code(bin_folder: Path) -> Iterator[ScriptedClaudeCode]:
    """During the block, serve the scripted model; install the command `claude` in a folder.

    Raises:
        SystemExit: Claude Code cannot be installed on this machine.
    """
    (client,) = select(["claude-code"])
    try:
        packages = install(client) / "node_modules" / "@anthropic-ai"
        (program,) = packages.glob("claude-code-*/claude")
    except (InstallError, ValueError) as error:
        raise SystemExit(
            f"The quickstart was not tested: Claude Code {client.version}, which its second step "
            f"runs, cannot be installed from the npm registry: {error}"
        ) from None
    (bin_folder / "claude").symlink_to(program)
    with serve_model() as model:
        trial = model.trials["start"] = Trial("start", SCENARIO)
        environment = {
            **OFFLINE,
            "ANTHROPIC_BASE_URL": f"{model.url}/{trial.name}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        yield ScriptedClaudeCode(trial, environment)
