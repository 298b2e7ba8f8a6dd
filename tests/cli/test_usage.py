"""`waybook usage`, and the usage that `waybook status` and `waybook run` show."""

import pytest

from cli.terminal import Body, Terminal
from waybook.store.driver.queries import new_uuid

#: Model names that no other test uses, because tests share a database.
A_MODEL, B_MODEL = f"a-{new_uuid()[-6:]}", f"b-{new_uuid()[-6:]}"


@pytest.fixture(scope="module")
def spent(terminal: Terminal) -> tuple[str, str]:
    """Return a plan that has used most of its budget, and a run with reported usage."""
    step = {"stepType": "search", "instructions": "Look."}
    named: Body = {"name": "Costly rivers", "researchQuestion": "Which?", "steps": [step, step]}
    plan = terminal.call("create_research_plan", **named, budget={"tokens": 1_500, "costUsd": 9})
    taken = terminal.call("get_next_step", planId=plan["planId"])
    took = {"inputTokens": 1_200, "outputTokens": 50, "costUsd": 0.25, "model": A_MODEL}
    held: Body = {"stepId": taken["stepId"], "resultSummary": "found"}
    terminal.call("submit_step_result", **held, usage=took)
    started: Body = {"dagSlug": "deep-research", "name": "Costly lakes", "input": "Which?"}
    run = terminal.call("start_run", **started, models=[B_MODEL])
    job = terminal.call("get_next_job", runId=run["runId"])
    made: Body = {
        "jobId": job["jobId"],
        "attempt": job["attempt"],
        "documents": [{"content": "# Found"}],
    }
    terminal.call("submit_job_result", **made, usage={"costUsd": 0.000125})
    return plan["planId"], run["runId"]


def test_usage_command_reports_cost_by_model_plan_and_run(
    terminal: Terminal, spent: tuple[str, str]
) -> None:
    report = terminal.json_output("usage", "--limit", "1000")
    plan_id, run_id = spent
    models = {row["model"]: row for row in report["models"]}
    assert models[A_MODEL]["costUsd"] == 0.25
    assert models[B_MODEL]["costUsd"] == 0.000125
    work = {row.get("planId") or row["runId"]: row for row in report["work"]}
    assert (work[plan_id]["name"], work[plan_id]["inputTokens"]) == ("Costly rivers", 1_200)
    assert (work[run_id]["name"], work[run_id]["results"]) == ("Costly lakes", 1)
    assert report["usage"]["costUsd"] == pytest.approx(
        sum(row["costUsd"] for row in report["work"])
    )
    assert (report["totalModels"], report["totalWork"]) == (len(models), len(work))


@pytest.mark.parametrize("columns", [60, 80, 140])
def test_usage_command_output_fits_terminal_width(
    terminal: Terminal, spent: tuple[str, str], columns: int
) -> None:
    output = terminal.say("usage", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())
    assert A_MODEL in output
    assert f"plan {spent[0][:5]}" in output
    assert "$0.25" in output


def test_usage_command_prints_message_for_period_without_usage(
    terminal: Terminal, spent: tuple[str, str]
) -> None:
    assert spent
    output = terminal.say("usage", "--since", "2100-01-01")
    assert "No usage reported" in output
    assert terminal.run("usage", "--since", "yesterday").exit_code != 0


def test_status_and_run_commands_print_reported_tokens_and_cost(
    terminal: Terminal, spent: tuple[str, str]
) -> None:
    status = terminal.say("status", spent[0])
    assert "1,200 tokens in, 50 out, $0.25, reported by 1 result" in status
    assert "1,250 of 1,500 tokens, 83 %" in status
    assert "$0.25 of $9.00, 2 %" in status
    assert terminal.json_output("status", spent[0])["budget"]["warning"].startswith("83 %")
    assert "0 tokens in, 0 out, $0.000125, reported by 1 result" in terminal.say("run", spent[1])
    assert terminal.json_output("run", spent[1])["usage"]["costUsd"] == 0.000125
