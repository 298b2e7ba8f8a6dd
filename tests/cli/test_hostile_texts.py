"""Control characters in stored texts, which commands escape so that terminals ignore them."""

import json
import sys
import unicodedata
from dataclasses import dataclass

import pytest

from cli.sample_runs import agent_in
from cli.terminal import Terminal
from injection_samples import ALL, samples
from org_env import make_step
from run_documents import render_all
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.cli.app import COMMANDS as ALL_COMMANDS
from waybook.cli.output import print_text
from waybook.cli.runtime import AppSession, get_console
from waybook.core.hidden_characters import count_hidden

#: Kinds of characters that control a terminal, or that reverse the order of characters in a line.
OBEYED = {"control", "bidi"}
MARKUP = "[red]approved[/red]"
SHORT = next(piece for piece in samples(180) if MARKUP in piece)
#: Hostile text for names in workflows, which may not contain control characters.
PLAIN = "".join(character for character in SHORT if unicodedata.category(character) != "Cc")


@dataclass(frozen=True)
class Stored:
    plan_id: str
    run_id: str
    output_id: str


@pytest.fixture(scope="module")
def stored(terminal: Terminal) -> Stored:
    """Store hostile texts in a plan that awaits a review and a run that awaits feedback."""

    async def write(here: AppSession) -> Stored:
        agent = agent_in(here)
        steps = [make_step(ALL, title=SHORT) for _ in range(3)]
        plan = await agent.plan(steps, name=SHORT, researchQuestion=ALL, sessionId=SHORT)
        plan_id, session = plan["planId"], {"sessionId": SHORT}
        first = await agent.take(plan, **session)
        await agent.submit(first, {"found": ALL, SHORT: ALL}, outputFormattingNotes=ALL)
        second = await agent.take(plan, **session)
        failed = {"action": "fail_step", "stepId": second["stepId"], "reason": ALL[:1_900]}
        rationale = {"modificationRationale": ALL[:1_900]}
        await agent.call("modify_plan", planId=plan_id, modifications=[failed], **rationale)
        third = await agent.take(plan, **session)
        report = {"state": "parked", "reason": ALL[:900], "lines": [SHORT]}
        printable = "".join(character for character in SHORT if character.isprintable())
        named = {"agent": printable, "host": printable}
        await agent.call("report_worker", planId=plan_id, sessionId="worker", **named, **report)
        research = {"kind": "note", "title": printable, "content": ALL, "planId": plan_id}
        await agent.call("store_research", **research)
        output_args = {"mediaType": "text/markdown", "title": printable, "content": ALL}
        output = await agent.call("store_research_output", planId=plan_id, **output_args)
        review_args = {
            "attempt": third["attempt"],
            "summary": ALL,
            "questions": [SHORT, ALL[:1_900]],
            "resultSummary": {"a": ALL},
        }
        await agent.review(third, **review_args)
        stages = [
            make_stage("one", make_recipe_step("step", name=PLAIN)),
            make_stage("two", make_recipe_step("last", name=PLAIN)),
        ]
        definition = make_definition("hostile", *stages) | {"name": PLAIN}
        await agent.call("add_dag", definition=definition)
        run = await agent.run("hostile", [SHORT], name=SHORT, input=ALL)
        await agent.submit_documents(await agent.job(run), ALL)
        await render_all(agent)
        return Stored(plan_id, run["runId"], output["outputId"])

    return terminal.inside(write)


#: Commands that show stored texts, with their arguments.
COMMANDS = {
    "plan list": (),
    "plan view": ("PLAN",),
    "plan watch": ("PLAN", "--once"),
    "review": (),
    "search": ("approve",),
    "run list": (),
    "run view": ("RUN",),
    "agent list": (),
    "documents": ("RUN",),
    "outputs": ("PLAN",),
    "usage": (),
    "audit list": ("PLAN",),
    "audit as-of": ("PLAN", "9"),
    "audit verify": (),
    "workflow list": (),
    "workflow view": ("hostile",),
    "call": ("get_research_context", '{"planId":"PLAN"}'),
    "doctor": (),
    "org list": (),
    "user list": (),
    "work start": ("--status",),
    "token list": (),
}
#: Commands whose `--json` takes the names of fields.
WITH_FIELDS = {
    *("plan list", "plan view", "run list", "run view"),
    *("agent list", "workflow list", "workflow view"),
}
#: Commands that have no `--json`, or that end only if it is absent.
WITHOUT_JSON = {"plan watch", "work start"}
#: Commands that show no stored text, except texts from their own arguments.
OTHERS = {
    *("login", "logout", "completion"),
    *("retain", "backup", "restore", "connect", "plugin", "import", "template", "demo", "serve"),
    *("mcp", "feedback", "report", "map", "migrate", "webhooks", "output", "export"),
}


def words_of(command: str, stored: Stored) -> list[str]:
    replacements = (("PLAN", stored.plan_id), ("RUN", stored.run_id))
    words = [*command.split(), *COMMANDS[command]]
    for name, which in replacements:
        words = [word.replace(name, which) for word in words]
    return words


def test_every_command_is_tested_with_hostile_text_or_exempt() -> None:
    assert {command.split()[0] for command in COMMANDS} | OTHERS == {*ALL_COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_output_contains_no_terminal_control_characters(
    terminal: Terminal, stored: Stored, command: str
) -> None:
    for columns in (60, 200):
        output = terminal.run(*words_of(command, stored), columns=columns).output
        assert output
        assert not count_hidden(output).keys() & OBEYED, ascii(output)


@pytest.mark.parametrize("command", sorted({*COMMANDS} - WITHOUT_JSON))
def test_json_output_of_command_escapes_terminal_control_characters(
    terminal: Terminal, stored: Stored, command: str
) -> None:
    wanted = "--json=all" if command in WITH_FIELDS else "--json"
    output = terminal.run(*words_of(command, stored), wanted).stdout
    assert not count_hidden(output).keys() & OBEYED
    json.loads(output)


def test_plans_command_with_json_flag_prints_stored_text_unchanged(
    terminal: Terminal, stored: Stored
) -> None:
    (match,) = [plan for plan in terminal.json_output("plans") if plan["planId"] == stored.plan_id]
    assert match["name"] == SHORT


@pytest.mark.parametrize("command", ["plan list", "plan view", "review"])
def test_rich_markup_in_stored_text_is_printed_literally(
    terminal: Terminal, stored: Stored, command: str
) -> None:
    output = terminal.say(*words_of(command, stored), columns=1_000)
    assert "[red]approved[/red]" in output


def test_console_print_does_not_interpret_markup() -> None:
    console = get_console()
    with console.capture() as capture:
        console.print(f"{MARKUP} :fire: https://example.org")
    assert capture.get() == f"{MARKUP} :fire: https://example.org\n"


def test_control_characters_are_escaped_in_text_printed_to_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_text("\x1b[2J")
    assert capsys.readouterr().out == "⟦U+001B⟧[2J\n"


def test_error_message_escapes_control_characters_in_quoted_input(terminal: Terminal) -> None:
    refused = terminal.run("status", "nothing \x1b[31m of this name")
    assert refused.exit_code == 1
    assert not count_hidden(refused.output)
