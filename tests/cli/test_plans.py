"""The commands `waybook plans`, `status`, `watch` and `search`."""

import re
from datetime import timedelta

import pytest

from cli.terminal import Body, Terminal
from waybook.cli.runtime import AppSession

SCREENS = [(40, 8), (60, 12), (80, 24), (100, 30), (140, 40), (200, 6), (80, 3), (30, 1)]


@pytest.fixture(scope="module")
def long_plan(terminal: Terminal) -> str:
    """Return a plan of sixty steps; twenty are completed, one failed, one is in progress."""
    plan_id = terminal.plan("A long plan with a name that does not fit anywhere at all", 60)

    async def work(here: AppSession) -> None:
        async def call(tool: str, **arguments: object) -> Body:
            return (await here.call_tool(tool, arguments)).body

        for _ in range(20):
            step = await call("get_next_step", planId=plan_id)
            await call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        lost = await call("get_next_step", planId=plan_id)
        gone = {"action": "fail_step", "stepId": lost["stepId"], "reason": "gone"}
        await call("modify_plan", planId=plan_id, modifications=[gone])
        await call("get_next_step", planId=plan_id, sessionId="ann")

    terminal.inside(work)
    return plan_id


def test_plans_command_lists_plan_with_step_counts(terminal: Terminal, long_plan: str) -> None:
    (match,) = [plan for plan in terminal.json_output("plans") if plan["planId"] == long_plan]
    assert match["status"] == "executing"
    assert match["progress"] == 33
    assert match["counts"] == {
        "done": 20,
        "total": 60,
        "completed": 20,
        "failed": 1,
        "in_progress": 1,
        "pending": 38,
    }


@pytest.mark.parametrize("columns", [80, 140])
def test_plans_command_output_fits_terminal_width(
    terminal: Terminal, long_plan: str, columns: int
) -> None:
    output = terminal.say("plans", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())
    assert long_plan[:8] in output
    assert "20 of 60, 1 failed" in output
    assert "◐ Running" in output


def test_every_command_shows_a_canceled_plan_as_canceled(terminal: Terminal) -> None:
    plan_id = terminal.plan("Called off", 1)
    cancel = {"action": "cancel_plan", "reason": "Not needed."}
    terminal.call("modify_plan", planId=plan_id, modifications=[cancel])
    (row,) = [p for p in terminal.json_output("plans", "--all") if p["planId"] == plan_id]
    assert row["status"] == "canceled"
    assert terminal.json_output("status", plan_id)["outcome"] == "canceled"
    for command in ("status PLAN", "watch PLAN --once", "audit as-of PLAN 2", "export PLAN"):
        shown = terminal.say(*command.replace("PLAN", plan_id).split())
        assert "Canceled" in shown, command
        assert "failed" not in shown, command


@pytest.mark.parametrize(("columns", "lines"), SCREENS)
def test_watch_command_output_fits_terminal_size(
    terminal: Terminal, long_plan: str, columns: int, lines: int
) -> None:
    shown = terminal.say("watch", long_plan, "--once", columns=columns, lines=lines).splitlines()
    assert len(shown) <= lines
    assert all(len(line) <= columns for line in shown)


def test_watch_command_shows_progress_and_current_step(terminal: Terminal, long_plan: str) -> None:
    shown = terminal.say("watch", long_plan, "--once", columns=120)
    assert "20 of 60 done" in shown
    assert "✓ 20 done   ✗ 1 failed   ◐ 1 running   · 38 ready" in shown
    assert "Part 22" in shown
    assert "ann" in shown
    assert "above" in shown
    assert "below" in shown


def test_watch_command_shows_stall_without_writing_audit_entry(terminal: Terminal) -> None:
    plan_id = terminal.plan("Silent", ago=timedelta(hours=3))
    terminal.take(plan_id, ago=timedelta(hours=2))
    shown = terminal.say("watch", plan_id, "--once")
    assert "▲ Stalled" in shown
    assert "step 1 has been silent for 2 h" in shown
    newest = max(terminal.json_output("audit", "list", plan_id), key=lambda entry: entry["seq"])
    assert newest["event"] == "step_started"


def test_watch_command_shows_reason_of_canceled_plan_without_error_mark(
    terminal: Terminal,
) -> None:
    plan_id = terminal.plan("Canceled")
    terminal.call("modify_plan", planId=plan_id, modifications=[{"cancel_plan": "not needed"}])
    shown = terminal.say("watch", plan_id, "--once")
    assert "canceled: not needed" in shown
    assert "✗ not needed" not in shown


def test_status_command_accepts_part_of_plan_name(terminal: Terminal) -> None:
    plan_id = terminal.plan("The Amazon and its sources")
    assert terminal.json_output("status", "amazon")["planId"] == plan_id
    assert "The Amazon and its sources" in terminal.say("status", plan_id[:13])


def test_status_command_refuses_ambiguous_plan_name(terminal: Terminal) -> None:
    terminal.plan("Twins, the first")
    terminal.plan("Twins, the second")
    failed = terminal.run("status", "twins")
    assert failed.exit_code == 1
    assert "could mean several plans" in failed.stderr


def test_status_command_shows_instructions_of_untitled_step(terminal: Terminal) -> None:
    steps = [{"stepType": "search", "instructions": "Find the source.\nThen the mouth."}]
    made = terminal.call("create_research_plan", name="Untitled", researchQuestion="?", steps=steps)
    assert "Find the source." in terminal.say("status", made["planId"])


def test_watch_command_shows_current_step_after_an_early_failure(terminal: Terminal) -> None:
    plan_id = terminal.plan("Early failure", 60)
    lost = terminal.take(plan_id)
    failure = {"action": "fail_step", "stepId": lost["stepId"], "reason": "gone"}
    terminal.call("modify_plan", planId=plan_id, modifications=[failure])

    async def work(here: AppSession) -> None:
        async def call(tool: str, **arguments: object) -> Body:
            return (await here.call_tool(tool, arguments)).body

        for _ in range(40):
            step = await call("get_next_step", planId=plan_id)
            await call("submit_step_result", stepId=step["stepId"], resultSummary="found")
        await call("get_next_step", planId=plan_id)

    terminal.inside(work)
    shown = terminal.say("watch", plan_id, "--once")
    assert re.search(r"42 Part 42 +◐ Running", shown), shown
    assert "✗ failed" not in shown, "the failed step is above the window"
    assert "1 failed" in shown


# Tests of `waybook search`.


FLOOD = "When an avalanche falls into a glacial lake the wave cuts the dam of loose moraine."


@pytest.fixture(scope="module")
def stored(terminal: Terminal) -> Body:
    """Store research with a title that is too long for a line, color codes, and sources."""
    plan_id = terminal.plan("Where research is stored", 1)
    pages = [{"title": f"Page {n}", "url": f"https://example.org/{n}"} for n in range(5)]
    return terminal.call(
        "store_research",
        planId=plan_id,
        kind="finding",
        title="Floods " + "of lakes " * 20,
        content=f"\x1b[31m{FLOOD}\x1b[0m",
        sources=pages,
    )


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_search_command_shows_matched_words_and_sources_of_hit(
    terminal: Terminal, stored: Body, columns: int
) -> None:
    output = terminal.say("search", "moraine dam", columns=columns)
    flat = " ".join(output.split())
    assert stored["artifactId"] in flat
    assert "dam, moraine: 100% of the question, place 1" in flat
    assert "Page 0 https://example.org/0" in flat
    assert "and 3 more" in flat
    assert "searched by full text" in flat
    assert "\x1b" not in output
    assert all(len(line.rstrip()) <= columns for line in output.splitlines())


def test_search_command_filters_hits_by_plan_and_kind(terminal: Terminal, stored: Body) -> None:
    def ids(*words: str) -> list[str]:
        return [hit["id"] for hit in terminal.json_output("search", "moraine dam", *words)["hits"]]

    assert ids("--plan", "Where research", "--kind", "finding") == [stored["artifactId"]]
    assert ids("--kind", "nothing") == []


def test_doctor_and_search_commands_do_not_print_embeddings_key(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_URL", "http://localhost:1/v1")
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_MODEL", "m")
    monkeypatch.setenv("WAYBOOK_EMBEDDINGS_KEY", "sk-1234")
    for words in (("doctor",), ("doctor", "--json"), ("search", "dam")):
        result = terminal.run(*words)
        assert "sk-1234" not in result.output
    assert "http://localhost:1/v1" in terminal.run("doctor").output


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"SEARCH_VECTORS": "oracle"}, "must be auto, portable or pgvector"),
        ({"SEARCH_VECTORS": "pgvector"}, "which the embedded PostgreSQL does not use"),
        ({"EMBEDDINGS_URL": "http://x"}, "embeddings_url and embeddings_model"),
        ({"EMBEDDINGS_MODEL": "m"}, "embeddings_url and embeddings_model"),
        (
            {"EMBEDDINGS_URL": "ftp://x", "EMBEDDINGS_MODEL": "m"},
            "must begin with http:// or https://",
        ),
        ({"EMBEDDINGS_URL": "http://a:b@x", "EMBEDDINGS_MODEL": "m"}, "must not contain a key"),
    ],
)
def test_search_command_prints_error_for_invalid_settings(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], expected: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"WAYBOOK_{name}", value)
    result = terminal.run("search", "dam")
    assert result.exit_code == 1
    assert expected in " ".join(result.output.split())
