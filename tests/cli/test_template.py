"""`waybook template`: list, show, save and use templates."""

import json
from pathlib import Path

import pytest

from cli.terminal import Body, Terminal


def test_template_commands_list_and_show_builtin_templates(terminal: Terminal) -> None:
    listed = {
        template["template"]: template for template in terminal.json_output("template", "list")
    }
    assert {"code-change", "incident", "research-report"} <= {*listed}
    assert "research-report" in terminal.say("template", "list", columns=160)
    assert "template: incident" in terminal.say("template", "show", "incident")


def test_template_use_command_creates_plan_after_confirmation(terminal: Terminal) -> None:
    words = ("template", "use", "research-report", "--set", "question=Why is the sky blue?")
    declined = terminal.run(*words, typed="n\n")
    assert "Nothing was written." in declined.stderr
    text = terminal.say(*words, typed="y\n")
    assert "Report: Why is the sky blue?" in text
    plans = terminal.json_output("plans")
    assert any(plan["name"] == "Report: Why is the sky blue?" for plan in plans)
    refused = terminal.run("template", "use", "research-report", "--yes")
    assert refused.exit_code == 1
    assert "needs: --set question=…" in refused.stderr


def test_template_saved_from_finished_plan_creates_an_equal_plan(
    terminal: Terminal, tmp_path: Path
) -> None:
    more = {"steps": [{"stepType": "search", "instructions": "More of the Nile."}]}
    plan: Body = {
        "name": "On the Nile",
        "researchQuestion": "How long is the Nile?",
        "steps": [
            {"stepType": "search", "title": "Look", "instructions": "Look up the Nile."},
            {"stepType": "synthesize", "instructions": "Write.", "dependsOn": [1]},
        ],
        "branchingConditions": [
            {
                "afterStepOrder": 1,
                "conditionExpression": "result.found > 3",
                "ifTrueAction": "add_steps",
                "actionParams": more,
            }
        ],
    }
    plan_id = terminal.call("create_research_plan", **plan)["planId"]
    for _ in range(2):
        step = terminal.take(plan_id)
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        terminal.call("submit_step_result", **held, resultSummary={"found": 1})
    terminal.say("template", "save", plan_id, "river")
    answer = terminal.json_output("template", "use", "river", "--dry-run")
    assert {name: answer[name] for name in plan} == plan
    again = terminal.run("template", "save", plan_id, "river")
    assert "--force" in again.stderr
    file = tmp_path / "own.yaml"
    terminal.say("template", "save", plan_id, "own", "--output", str(file))
    text = file.read_text("utf-8").replace("the Nile", "{{ river }}")
    file.write_text(f"{text}parameters: {{river: One river.}}\n", "utf-8")
    words = ("template", "use", str(file), "--yes", "--set")
    assert terminal.json_output(*words, "river=the Nile")["name"] == "On the Nile"
    made = terminal.json_output(*words, "river=the Po")
    assert terminal.json_output("status", made["id"])["name"] == "On the Po"


@pytest.mark.parametrize("name", ["code-change", "incident", "research-report"])
def test_every_builtin_template_creates_a_plan(terminal: Terminal, name: str) -> None:
    shown = terminal.json_output("template", "show", name)
    assert shown["description"]
    assert all(shown["parameters"].values())
    values = [word for p in shown["parameters"] for word in ("--set", f"{p}=some {p}")]
    made = terminal.json_output("template", "use", name, "--yes", *values)
    stored = json.loads(terminal.say("export", made["id"], "--format", "json"))
    assert len(stored["steps"]) == len(shown["steps"])
    assert len(stored["conditions"]) == len(shown["branchingConditions"])
    assert "{{" not in json.dumps(stored["steps"])
