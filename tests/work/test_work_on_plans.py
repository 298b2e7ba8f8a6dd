"""Workers on plans: every step once, merged in order, with conflicts, reviews and failures."""

import asyncio
from dataclasses import replace

import pytest

from org_env import AgentClient, make_step
from patience import PATIENCE_SECONDS
from waybook.core.decision_context import Channel
from work_env import Place


@pytest.mark.parametrize("isolation", ["step", "worker"])
async def test_steps_of_a_graph_are_done_once_and_merged(
    place: Place, agent: AgentClient, isolation: str
) -> None:
    steps = [
        make_step("Write a.", title="A"),
        make_step("Write b.", title="B"),
        make_step("Join.", title="Join", dependsOn=[1, 2]),
    ]
    plan = await agent.plan(steps)
    writer = place.agent("""
if order == 3:
    texts = [pathlib.Path(f"src/{n}.txt").read_text() for n in (1, 2)]
    write("joined.txt", "".join(texts))
else:
    write(f"src/{order}.txt", f"text {order}\\n")
answer(f"did {order}")
""")
    worked = await place.work(plan["planId"], (writer, 2), isolation=isolation)
    assert worked == 0, place.messages
    files = place.files(f"waybook/{plan['planId']}/merged")
    assert files["joined.txt"] == "text 1\ntext 2\n"
    status = await agent.status(plan)
    results = [step["resultSummary"] for step in status["completedSteps"]]
    assert (status["status"], results) == ("completed", ["did 1", "did 2", "did 3"])
    assert place.leftovers() == []
    assert place.git("status", "--porcelain") == ""


async def test_conflict_becomes_a_step_that_dependents_wait_for(
    place: Place, agent: AgentClient
) -> None:
    steps = [
        make_step("Write one.", title="One"),
        make_step("Write two.", title="Two"),
        make_step("Read.", title="Read", dependsOn=[1, 2]),
    ]
    plan = await agent.plan(steps)
    # Both agents write before either of them ends.
    writer = place.agent("""
title = re.search(r"# Step \\d+: (\\S+)", prompt)[1]
if title == "Resolve":
    assert "<<<<<<<" in pathlib.Path("shared.txt").read_text()
    assert "+text 1" in prompt and "+text 2" in prompt
    write("shared.txt", "text 1\\ntext 2\\n")
elif title == "Read":
    answer(pathlib.Path("shared.txt").read_text())
    sys.exit()
else:
    write("shared.txt", f"text {order}\\n")
    meeting = pathlib.Path(sys.argv[0]).parent / "meeting"
    meeting.mkdir(exist_ok=True)
    (meeting / str(order)).touch()
    while len(list(meeting.iterdir())) < 2:
        time.sleep(0.01)
answer("done")
""")
    assert await place.work(plan["planId"], (writer, 2)) == 0, place.messages
    assert place.files(f"waybook/{plan['planId']}/merged")["shared.txt"] == "text 1\ntext 2\n"
    status = await agent.status(plan)
    titles = [step["title"].split(" waybook")[0] for step in status["completedSteps"]]
    assert sorted(titles) == ["One", "Read", "Resolve the conflicts of", "Two"]
    assert status["completedSteps"][-1]["resultSummary"] == "text 1\ntext 2\n"
    assert place.leftovers() == []


async def test_agent_without_changes_fails_after_a_second_try(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Write.")])
    idle = place.agent("answer('I did it, believe me')")
    options = {"requires_change": True, "max_attempts": 1}
    assert await place.work(plan["planId"], (idle, 1), **options) == 1
    (failed,) = (await agent.status(plan))["failedSteps"]
    assert "you changed no file" in failed["reason"]
    assert place.leftovers() == []


async def test_step_returned_three_times_is_retried_after_a_failure(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Write.")])
    for _ in range(3):
        taken = await agent.take(plan)
        held = {"stepId": taken["stepId"], "attempt": taken["attempt"]}
        await agent.call("give_back", **held, reason="usage limit")
    failing = place.agent("""
mark = pathlib.Path(sys.argv[0]).parent / "tried"
if not mark.exists():
    mark.touch()
    sys.exit("failed once")
answer("done")
""")
    assert await place.work(plan["planId"], (failing, 1), max_attempts=2) == 0, place.messages
    assert (await agent.status(plan))["status"] == "completed"


async def test_failed_check_is_repaired_before_anything_is_merged(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Write.")])
    writer = place.agent("""
write("n.txt", "good" if "the check failed" in prompt else "bad")
answer("written")
""")
    check = place.check(
        "import pathlib, sys; sys.exit(pathlib.Path('n.txt').read_text() != 'good')"
    )
    assert await place.work(plan["planId"], (writer, 1), check=check) == 0, place.messages
    merged = f"waybook/{plan['planId']}/merged"
    assert place.files(merged)["n.txt"] == "good"
    assert "bad" not in place.git("log", "--format=", "-p", "--first-parent", merged)
    assert place.leftovers() == []


async def test_approved_checkpoint_is_merged_and_modified_checkpoint_continues(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan(
        [make_step("Draft.", stepType="checkpoint"), make_step("Publish.", dependsOn=[1])]
    )
    writer = place.agent("""
if order == 2:
    answer(pathlib.Path("draft.txt").read_text())
    sys.exit()
before = pathlib.Path("draft.txt").read_text() if os.path.exists("draft.txt") else ""
write("draft.txt", before + ("better" if "User feedback: shorter" in prompt else "long "))
answer("Is it right?")
""")
    reviewed = []

    async def decide() -> None:
        for decision, more in (("modify", {"feedback": "shorter"}), ("approve", {})):
            await place.hear("waits for a review")
            await agent.decide(plan, decision, place="client", **more)
            reviewed.append(decision)

    deciding = asyncio.create_task(decide())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await place.work(plan["planId"], (writer, 2)) == 0, place.messages
        await deciding
    status = await agent.status(plan)
    assert status["completedSteps"][1]["resultSummary"] == "long better"
    assert place.leftovers() == []


async def test_files_outside_of_touches_are_refused_and_not_merged(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("Write.", touches=["src/**"])])
    writer = place.agent("""
write("src/a.txt", "mine")
if "undo" in prompt:
    os.remove("README.md") if os.path.exists("README.md") else None
    subprocess.run(["git", "checkout", "HEAD~1", "--", "README.md"], check=True)
else:
    write("README.md", "theirs")
answer("written")
""")
    assert await place.work(plan["planId"], (writer, 1)) == 0, place.messages
    files = place.files(f"waybook/{plan['planId']}/merged")
    assert files == {"README.md": "Rivers\n", "src/a.txt": "mine"}


async def test_step_of_an_agent_at_a_quota_goes_to_another_agent(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("One."), make_step("Two.")])
    mark = f"mark = pathlib.Path({str(place.root / 'mark')!r})\n"
    limited = place.agent(mark + "mark.touch(); sys.exit('usage limit reached')")
    writer = place.agent(
        mark + "while not mark.exists(): time.sleep(0.01)\nanswer(f'{order} is done')"
    )
    agents = ((limited, 1), (writer, 1))
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await place.work(plan["planId"], *agents, isolation="none") == 0
    assert any("is at the limit of its provider" in line for line in place.messages)
    done = (await agent.status(plan))["completedSteps"]
    assert [step["resultSummary"] for step in done] == ["1 is done", "2 is done"]


async def test_work_pauses_at_a_cap_until_a_person_decides(
    place: Place, agent: AgentClient
) -> None:
    plan = await agent.plan([make_step("One."), make_step("Two.")])
    writer = place.agent("answer('done')")
    caps = ({"scope": "work", "period": "total", "unit": "steps", "limit": 1.0},)
    async with asyncio.timeout(PATIENCE_SECONDS):
        working = asyncio.create_task(
            place.work(plan["planId"], (writer, 2), isolation="none", caps=caps)
        )
        await place.hear("decide here")
        status = await agent.status(plan)
        assert len(status["completedSteps"]) == 1
        (cap,) = (await place.view("workers"))["caps"]
        person = replace(agent, caller=replace(agent.caller, channel=Channel.DASHBOARD))
        await person.call("decide_cap", capId=cap["capId"], limit=2)
        assert await working == 0, place.messages
    assert len((await agent.status(plan))["completedSteps"]) == 2
