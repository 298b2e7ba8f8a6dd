"""Plans and runs for the pictures and use cases, made by scripted agents and people.

Every row comes from a tool call, as in daily work. The clock is simulated, so that hours pass in
seconds. Each plan has a clock of its own, which starts in the past, and ends at about the current
time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from waybook.application import BasicApplication
from waybook.cli.demo import actors
from waybook.cli.demo.actors import Actor, DemoContext, RunWork, agent
from waybook.cli.demo.environment import FAST, SimulatedClock
from waybook.cli.terminal.errors import ToolError
from waybook.core.decision_context import Channel

Reply = dict[str, Any]
Step = dict[str, Any]

LICENSES = "Check the licenses of our dependencies"
WAREHOUSE = "Move the reports off the old warehouse"
REFUNDS = "Set the refund rules for annual plans"
GROUPS = ("web framework", "database driver", "PDF export", "charts", "login", "search", "mail")
#: Usage that agents report with every result.
USAGE = {"inputTokens": 41_200, "outputTokens": 2_300, "costUsd": 0.16}


@dataclass
class Stage:
    """Values that all stories have in common: application, current time, and created ids."""

    app: BasicApplication
    now: datetime
    ids: dict[str, str] = field(default_factory=dict)

    def scene(self, minutes: float) -> DemoContext:
        """Return the context of a story, whose clock starts this many minutes ago."""
        database = self.app.services.database
        clock = SimulatedClock(database, self.now - timedelta(minutes=minutes), FAST)
        return DemoContext(app=self.app, clock=clock)


def step(title: str, instructions: str, kind: str = "analyze", **more: object) -> Step:
    return {"title": title, "stepType": kind, "instructions": instructions, **more}


async def create(scene: DemoContext, name: str, question: str, steps: Sequence[Step]) -> str:
    plan = await agent(scene, "ada").call(
        "create_research_plan", name=name, researchQuestion=question, steps=list(steps)
    )
    return str(plan["planId"])


def wait(scene: DemoContext, minutes: float) -> None:
    scene.clock.now += timedelta(minutes=minutes)


async def claim(me: Actor, plan: str) -> Reply:
    return await me.call("get_next_step", planId=plan)


async def submit(me: Actor, taken: Reply, result: dict[str, object], confidence: float) -> Reply:
    return await me.call(
        "submit_step_result",
        stepId=taken["stepId"],
        attempt=taken["attempt"],
        resultSummary=result,
        confidence=confidence,
        usage=USAGE,
    )


async def work(me: Actor, plan: str, minutes: float, result: dict[str, object]) -> None:
    """Claim a step; after this many minutes, submit its result."""
    taken = await claim(me, plan)
    wait(me.scene, minutes)
    await submit(me, taken, result, 0.86)


# Stories of the use cases


async def long_work(stage: Stage) -> None:
    """Let an agent work for hours; its conversation is compacted after four steps."""
    scene = stage.scene(237)
    titles = (
        ("List the reports", "List every report that reads the old warehouse.", "search"),
        ("Find the owners", "Find an owner for each report.", "search"),
        ("Map the tables", "Map each table of the reports to the new warehouse.", "analyze"),
        ("Rewrite the queries", "Rewrite the queries of the first ten reports.", "custom"),
        ("Compare the results", "Run both versions and compare the rows.", "analyze"),
        ("Rewrite the rest", "Rewrite the queries of the other reports.", "custom"),
        ("Measure the cost", "Compare the cost of a month in both warehouses.", "analyze"),
        ("Write the move plan", "Write the order of the move and the way back.", "synthesize"),
    )
    steps = [step(title, text, kind) for title, text, kind in titles]
    plan = await create(scene, WAREHOUSE, "In which order do we move the reports?", steps)
    stage.ids[WAREHOUSE] = plan
    before, after = (agent(scene, "nora", name) for name in ("nora-morning", "nora-afternoon"))
    await work(before, plan, 22, {"reports": 34, "unused": 6})
    await work(before, plan, 31, {"owners": 29, "withoutOwner": 5})
    await work(before, plan, 48, {"tables": 112, "withoutEqual": 3})
    await work(before, plan, 64, {"queries": 10, "changedByHand": 4})
    wait(scene, 5)
    await after.call("get_research_context", planId=plan)
    await work(after, plan, 41, {"equal": 9, "different": 1, "reason": "time zones"})
    taken = await claim(after, plan)
    wait(scene, 20)
    await after.call("get_step_context", stepId=taken["stepId"])


async def shared_work(stage: Stage) -> None:
    """Let four agents share a plan; one stops responding, and its late result is refused."""
    scene = stage.scene(101)
    steps = [step(f"Check: {group}", f"Check the licenses of: {group}.") for group in GROUPS]
    for each in steps:
        each["dependsOn"] = []
    every = list(range(1, len(steps) + 1))
    steps.append(step("Write the list", "Write one list.", "synthesize", dependsOn=every))
    plan = await create(scene, LICENSES, "Which licenses forbid our use?", steps)
    stage.ids[LICENSES] = plan
    ada, ben, cleo, dan = (agent(scene, name) for name in ("ada", "ben", "cleo", "dan"))
    held = [(me, await claim(me, plan)) for me in (ada, ben, cleo, dan)]
    wait(scene, 12)
    for me, taken in held[:3]:
        wait(scene, 4)
        await submit(me, taken, {"packages": 14, "forbidden": 0}, 0.9)
    wait(scene, 3)
    held = [*held[3:], *[(me, await claim(me, plan)) for me in (ada, ben, cleo)]]
    wait(scene, 16)
    await submit(cleo, held[3][1], {"packages": 9, "forbidden": 1}, 0.8)
    await submit(ben, held[2][1], {"packages": 11, "forbidden": 0}, 0.9)
    await submit(ada, held[1][1], {"packages": 8, "forbidden": 0}, 0.9)
    wait(scene, 40)
    await ada.call("get_plan_status", planId=plan)
    over = await claim(ada, plan)
    assert over["takenOver"]["heldBy"] == "dan"
    wait(scene, 9)
    try:
        await submit(dan, held[0][1], {"packages": 12, "forbidden": 0}, 0.9)
    except ToolError as refused:
        stage.ids["late result"] = str(refused)
    wait(scene, 6)
    await ada.call("get_step_context", stepId=over["stepId"])


async def reviewed_work(stage: Stage) -> None:
    """Let a person request changes to a draft of rules; the next draft awaits a decision."""
    scene = stage.scene(138)
    titles = (
        ("Read the last refunds", "Read the refunds of the last quarter.", "extract"),
        ("Compare with the law", "Compare our terms with the law.", "analyze"),
        ("Draft the rules", "Draft the rules for annual plans.", "synthesize"),
        ("Publish the rules", "Write the help page and the mail.", "custom"),
    )
    steps = [step(title, text, kind) for title, text, kind in titles]
    plan = await create(scene, REFUNDS, "When do we refund an annual plan?", steps)
    stage.ids[REFUNDS] = plan
    ada = agent(scene, "ada")
    mira = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
    await work(ada, plan, 18, {"refunds": 214, "disputed": 9})
    await work(ada, plan, 27, {"daysByLaw": 14, "exceptions": ["business customers"]})
    taken = await claim(ada, plan)
    wait(scene, 33)
    await ada.call(
        "request_user_review",
        stepId=taken["stepId"],
        summary="Full refund within 14 days, nothing afterwards. May we publish this?",
        resultSummary={"fullRefundDays": 14, "afterwards": "no refund"},
    )
    wait(scene, 25)
    feedback = "Too strict: refund the unused months after the 14 days."
    await mira.call("submit_user_decision", planId=plan, decision="modify", feedback=feedback)
    wait(scene, 2)
    taken = await claim(ada, plan)
    await ada.call(
        "store_research",
        kind="finding",
        title="Unused months cost less than disputes",
        content="The disputed refunds of the last quarter cost more than all unused months.",
        stepId=taken["stepId"],
    )
    wait(scene, 21)
    await ada.call(
        "request_user_review",
        stepId=taken["stepId"],
        summary="Full refund within 14 days, then the unused months. May we publish this?",
        questions=["Does this apply to business customers too?"],
        resultSummary={"fullRefundDays": 14, "afterwards": "unused months"},
    )


# Further stories, for the front page


async def other_work(stage: Stage) -> None:
    """Create four plans: one with a failed step, one stalled, one completed, one canceled."""
    scene = stage.scene(50)
    titles = ("List the candidates", "Run the benchmarks", "Compare the prices", "Recommend one")
    plan = await create(
        scene, "Survey vector databases", "Which one fits?", [step(t, f"{t}.") for t in titles]
    )
    ben = agent(scene, "ben")
    await work(ben, plan, 17, {"candidates": 5})
    taken = await claim(ben, plan)
    wait(scene, 14)
    reason = "The benchmark host answered 503 three times in a row."
    failure = {"action": "fail_step", "stepId": taken["stepId"], "reason": reason}
    await ben.call("modify_plan", planId=plan, modifications=[failure])
    wait(scene, 5)
    await claim(ben, plan)
    wait(scene, 9)
    await ben.call("get_plan_status", planId=plan)

    scene = stage.scene(190)
    texts = ["Export the ledger", "Match the invoices", "Report the differences"]
    name = "Check the invoices of March"
    plan = await create(scene, name, "Which invoices differ?", [step(t, f"{t}.") for t in texts])
    await claim(agent(scene, "cleo", "cleo-night"), plan)
    wait(scene, 45)
    await agent(scene, "ada").call("get_plan_status", planId=plan)

    scene = stage.scene(300)
    plan = await create(
        scene, "Name the message library", "Which name?", [step("Find a name", "Find a name.")]
    )
    await work(agent(scene, "cleo"), plan, 13, {"name": "postbox"})

    scene = stage.scene(220)
    steps = [step("Read the guide", "Read the guide."), step("Rewrite it", "Rewrite it.")]
    plan = await create(scene, "Rewrite the onboarding guide", "What is out of date?", steps)
    wait(scene, 30)
    mira = Actor(name="mira", scene=scene, channel=Channel.DASHBOARD)
    end = {"action": "cancel_plan", "reason": "The guide moves to the new wiki."}
    await mira.call("modify_plan", planId=plan, modifications=[end])


async def prepared_work(stage: Stage) -> None:
    """Start the run of the demo; let an agent for each model work until the current time."""
    minutes, pause = 240, 6
    scene = stage.scene(minutes)
    await actors.start_run(scene)
    stage.ids["run"] = scene.run_id
    sessions = [agent(scene, name) for name in actors.MODELS]
    work = RunWork(scene, sessions, {}, {"usage": USAGE})
    for _ in range(minutes // pause - 1):
        await work.round()
        wait(scene, pause)


async def play(app: BasicApplication) -> dict[str, str]:
    """Run all stories; return the ids of the plans and the run, by name."""
    org = app.caller(Channel.CLI).org_id
    database = app.services.database
    stage = Stage(app, await database.read_now(org))
    for story in (other_work, prepared_work, long_work, shared_work, reviewed_work):
        await story(stage)
    return stage.ids
