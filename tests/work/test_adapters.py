"""Adapters: recorded output of the real programs, the file of a person, and installed agents."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from waybook.errors import InvalidInput, Misconfigured
from waybook.json_values import Json
from waybook.work.adapters import Adapter, find_adapter, init_adapters, load_adapters
from waybook.work.agent_process import run_agent
from waybook.work.output import reset_time
from waybook.work.process import prepare
from waybook.work.tasks import Limits, Outcome, OutcomeKind, Task, Usage

#: Output of the real programs with a scripted model, written by the harness `work-agents`.
RECORDED = Path(__file__).parent / "recorded"
SCHEMA: Json = {
    "type": "object",
    "properties": {"rivers": {"type": "integer"}},
    "required": ["rivers"],
    "additionalProperties": False,
}
AGENTS = ("claude-code", "codex", "gemini-cli", "opencode")
COSTS = {"claude-code": 450}


async def replay(agent: str, case: str, folder: Path, task: Task | None = None) -> Outcome:
    """Run a command that writes the recorded output of an agent."""
    adapter = load_adapters().by_name[agent]
    is_error = case in {*OutcomeKind}
    file = RECORDED / f"{agent}-{case}"
    output = f'cat "{file}.jsonl"; [ ! -e "{file}.err" ] || cat "{file}.err" >&2'
    script = f"{output}; exit {int(is_error)}"
    recorded = adapter.model_copy(update={"command": ("sh", "-c", script)})
    limits = Limits(seconds=60, patience_seconds=30)
    return await run_agent(recorded, task or Task("Count.", folder), limits, lambda _: None)


@pytest.mark.parametrize("agent", AGENTS)
async def test_recorded_answer_gives_text_usage_and_conversation(
    agent: str, tmp_path: Path
) -> None:
    outcome = await replay(agent, "text", tmp_path)
    assert (outcome.kind, outcome.text) == (OutcomeKind.DONE, "There are three rivers.")
    models = {"claude-code": "claude-sonnet-4-5", "gemini-cli": "gemini-2.5-flash"}
    assert outcome.usage == Usage(100, 10, COSTS.get(agent, 0), models.get(agent))
    assert outcome.conversation is not None


@pytest.mark.parametrize("agent", ["claude-code", "codex"])
async def test_usage_of_a_resumed_conversation_is_counted_once(agent: str, tmp_path: Path) -> None:
    first = await replay(agent, "text", tmp_path)
    task = Task("Again.", tmp_path, resume=first.conversation)
    again = await replay(agent, "resumed", tmp_path, task)
    assert again.usage == first.usage


async def test_structured_output_of_claude_code_is_the_result(tmp_path: Path) -> None:
    outcome = await replay("claude-code", "schema", tmp_path, Task("Count.", tmp_path, SCHEMA))
    assert (outcome.kind, outcome.result) == (OutcomeKind.DONE, {"rivers": 3})


@pytest.mark.parametrize("kind", [OutcomeKind.QUOTA, OutcomeKind.SIGN_IN, OutcomeKind.NO_MODEL])
@pytest.mark.parametrize("agent", AGENTS)
async def test_recorded_error_gives_the_kind_of_the_outcome(
    agent: str, kind: OutcomeKind, tmp_path: Path
) -> None:
    outcome = await replay(agent, kind.value, tmp_path)
    assert (outcome.kind, outcome.result) == (kind, None)
    assert outcome.message


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("limit reached|1795123372", "2026-11-19T21:22:52"),
        ("retry after 2026-11-20T01:02:03Z", "2026-11-20T01:02:03"),
        ("Please retry in 1h 2m.", "2026-11-19T21:24:00"),
        ("try again at 9:22 PM.", "2026-11-19T21:22:00"),
        ("resets 3am (Europe/Berlin)", "2026-11-20T02:00:00"),
        ("at Nov 21st, 2026 1:05 AM", "2026-11-21T01:05:00"),
        ("resets at 7", None),
        ("at Feb 30, 2027 1:05 AM", None),
        ("retry in 9999999d", None),
        ("rate limit", None),
    ],
)
def test_error_text_says_when_the_quota_is_reset(text: str, reset: str | None) -> None:
    now = datetime(2026, 11, 19, 20, 22, tzinfo=UTC)
    at = reset_time(text, load_adapters().errors.resets, now)
    assert at == (reset and datetime.fromisoformat(f"{reset}+00:00"))


# Tests of command lines.


SERVER: dict[str, Json] = {"url": "http://h/mcp", "headers": {"Authorization": "Bearer t0p-secret"}}


@pytest.mark.parametrize("agent", AGENTS)
def test_command_line_has_all_flags_and_no_secret(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    adapter = load_adapters().by_name[agent].model_copy(update={"model": "m1"})
    task = Task("Count.", tmp_path, SCHEMA, resume="c1", mcp_server=SERVER)
    command, environment = prepare(adapter, task, tmp_path)
    line = " ".join(command)
    assert [word for word in ("m1", "c1") if word not in line] == []
    assert "t0p" not in line
    assert "{" not in line.replace('{"', "")
    content = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert "t0p-secret" in "".join([*content, *environment.values()])


# Tests of the file.


def load(tmp_path: Path, text: str) -> "dict[str, Adapter]":
    file = tmp_path / "agents.toml"
    file.write_text(text)
    return dict(load_adapters(file).by_name)


def test_file_changes_known_agents_and_adds_others(tmp_path: Path) -> None:
    agents = load(
        tmp_path,
        'wrap = ["bwrap"]\n[agents.codex]\nmodel = "m1"\n'
        '[agents.careful]\nlike = "claude-code"\npermissions = ["--permission-mode", "plan"]\n'
        '[agents.mine]\ncommand = ["mine", "{prompt_file}"]\n',
    )
    assert (agents["codex"].model, agents["codex"].wrap) == ("m1", ("bwrap",))
    assert ("resume", "{conversation}") in agents["codex"].command
    assert agents["careful"].permissions == ("--permission-mode", "plan")
    assert agents["careful"].read == agents["claude-code"].read
    assert agents["mine"].errors.classify("429 Too Many Requests") == "quota"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "cannot read"),
        ("x = 1", "x: Extra inputs"),
        ("[agents.codex]\nprompts = 1", "prompts: Extra inputs"),
        ("[agents.mine]", "set `command` or `endpoint`"),
        ('[agents.mine]\nlike = "none"', "agents.mine.like: there is no agent none"),
        ('[errors]\nquota = ["("]', "valid regular expression"),
    ],
)
def test_bad_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        load(tmp_path, text)
    assert message in refused.value.message
    assert "agents.toml" in refused.value.message


def test_option_names_an_agent_and_a_number_of_workers() -> None:
    adapters = load_adapters()
    assert find_adapter("codex:3", adapters) == (adapters.by_name["codex"], 3)
    assert find_adapter("cmd:run --at a:1", adapters)[0].command == ("run", "--at", "a:1")
    for option in ("codx", "codex:0", "codex:x", "cmd:", 'cmd:"'):
        with pytest.raises(InvalidInput):
            find_adapter(option, adapters)


def test_written_file_lists_installed_agents_and_loads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "codex"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "config" / "agents.toml"
    lines = init_adapters(file, load_adapters())
    assert f"codex: {program}" in lines
    assert "opencode: not installed" in lines
    assert load_adapters(file) == load_adapters()
    assert init_adapters(file, load_adapters())[-1] == f"{file} exists and was not changed"
