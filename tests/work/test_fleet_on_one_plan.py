"""Three kinds of agents on one plan with a condition, a review, a schema and a conflict."""

import asyncio

from org_env import AgentClient, branch_condition, make_step
from patience import PATIENCE_SECONDS
from work_env import Place

SCHEMA = {
    "type": "object",
    "properties": {"rivers": {"type": "integer"}},
    "required": ["rivers"],
}
WRITER = """
title = re.search(r"# Step \\d+: (\\w+)", prompt)[1]
place = pathlib.Path(sys.argv[0]).parent
with open(place / "calls", "a") as calls:
    calls.write(f"{title}\\n")
if title == "Size":
    answer('{"rivers": 2}')
elif title == "Resolve":
    write("shared.txt", "Left\\nRight\\n")
    answer("both")
elif title == "Join":
    answer(" ".join(sorted(path.name for path in pathlib.Path(".").glob("*.txt"))))
else:
    write("shared.txt" if title in ("Left", "Right") else f"{title}.txt", f"{title}\\n")
    if title in ("Left", "Right"):  # Both agents write before either of them ends.
        meeting = place / "meeting"
        meeting.mkdir(exist_ok=True)
        (meeting / title).touch()
        while len(list(meeting.iterdir())) < 2:
            time.sleep(0.01)
    answer(title)
"""
PARTS = ("Amazon", "Congo", "Danube", "Elbe", "Ganges", "Lena")


async def test_twelve_steps_by_three_agents_are_done_once_and_merged(
    place: Place, agent: AgentClient
) -> None:
    middle = [make_step("Write.", title=name, dependsOn=[1]) for name in ("Left", "Right", *PARTS)]
    draft = make_step("Draft.", title="Draft", stepType="checkpoint", dependsOn=[1])
    plan = await agent.plan(
        [
            make_step("Count.", title="Size", resultSchema=SCHEMA),
            *middle,
            draft,
            make_step("Join.", title="Join", dependsOn=[*range(2, 11)]),
        ],
        branchingConditions=[
            branch_condition(
                1, "result.rivers < 3", "add_steps", steps=[make_step("More.", title="Extra")]
            )
        ],
    )
    agents = [(place.agent(f"{WRITER}\n# kind {number}"), 1) for number in range(3)]

    async def approve() -> None:
        await place.hear("waits for a review")
        await agent.decide(plan, place="client")

    deciding = asyncio.create_task(approve())
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await place.work(plan["planId"], *agents) == 0, place.messages
        await deciding
    titles = sorted(["Size", "Extra", "Left", "Right", "Resolve", "Draft", "Join", *PARTS])
    assert sorted((place.root / "calls").read_text().split()) == titles
    status = await agent.status(plan)
    assert (status["status"], len(status["completedSteps"])) == ("completed", len(titles))
    names = ("Draft", "Extra", *PARTS)
    files = {"README.md": "Rivers\n", "shared.txt": "Left\nRight\n"}
    files |= {f"{name}.txt": f"{name}\n" for name in names}
    assert place.files(f"waybook/{plan['planId']}/merged") == files
    joined = next(s for s in status["completedSteps"] if s["title"] == "Join")
    assert joined["resultSummary"] == " ".join(sorted(name for name in files if "txt" in name))
    assert place.leftovers() == []
