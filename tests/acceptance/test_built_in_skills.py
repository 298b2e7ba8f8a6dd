"""Built-in skills, tested by an agent that follows their instructions literally.

The agent creates the plan exactly as the skill's text gives it, and completes the plan. A simulated
person acts where the skill requires one.
"""

import json
import re
from dataclasses import dataclass, field

import pytest

from org_env import AgentClient, Body, OrgEnv, with_parts
from project.repository import code_blocks
from waybook.app.registry import TOOLS
from waybook.app.request.arguments import parse_arguments
from waybook.app.server_dispatcher import ServerDispatcher
from waybook.app.skills.loader import read_skills
from waybook.app.tools.plans.skills import InstalledSkills
from waybook.core.decision_context import Channel

SKILLS = {skill.name: skill for skill in read_skills("")}
PLANS: dict[str, Body] = {
    name: json.loads(code_blocks(skill.body, "json")[0]) for name, skill in SKILLS.items()
}
SESSION = "one conversation"


def sources(*trusts: str) -> list[Body]:
    return [
        {"title": f"Source {n}", "claim": "So it is.", "trust": t} for n, t in enumerate(trusts)
    ]


#: A valid result for each step, by the title of the step.
GOOD: dict[str, object] = {
    # Steps of the skill `quick-scan`
    "Find sources": {"sources": sources("high", "medium", "high", "low")},
    "Search again, with other words": {"sources": sources("high")},
    "Compare the claims": {
        "answer": "The Nile.",
        "findings": [{"finding": "It is longest.", "sources": ["Source 0"]}],
        "unknown": [],
    },
    "Write the page": "# The Nile",
    # Steps of the skill `deep-research`
    "Frame the question": {"answerable": True, "subQuestions": ["How long?"], "doneWhen": "known"},
    "Gather sources": {"sources": sources(*["high"] * 5), "uncovered": []},
    "Gather once more": {"sources": sources("high"), "uncovered": []},
    "Extract the claims": {
        "claims": [
            {
                "subQuestion": "How long?",
                "claim": "6,650 km.",
                "source": "Source 0",
                "quote": "it is 6,650 km long",
                "support": "shown",
            }
        ]
    },
    "Compare and answer": {
        "answer": "The Nile.",
        "answers": [{"subQuestion": "How long?", "answer": "6,650 km.", "confidence": 0.8}],
        "contradictions": [],
    },
    "Attack the answer": {
        "verdict": "sound",
        "objections": [{"objection": "Old figure.", "severity": "minor"}],
    },
    "Answer the objections": "The objection falls.",
    "Revise the answer": "The Nile, still.",
    "Write the report": {"summary": "The Nile.", "headings": ["Length"]},
}
WEAK: dict[str, object] = {
    "Find sources": {"sources": sources("high", "low", "low")},
    "Gather sources": {"sources": sources("high", "low"), "uncovered": ["How long?"]},
    "Attack the answer": {
        "verdict": "weak",
        "objections": [{"objection": "One source.", "severity": "serious"}],
    },
}


@dataclass
class Worker:
    """Agent that does only what a skill's instructions say."""

    agent: AgentClient
    skill: str
    results: dict[str, object] = field(default_factory=dict)
    plan: Body = field(default_factory=dict)
    started: Body = field(default_factory=dict)
    #: Titles of the completed steps, in order.
    did: list[str] = field(default_factory=list)

    async def begin(self) -> None:
        called = {"name": self.skill, "sessionId": SESSION}
        self.started = await self.agent.call("start_skill", **called)
        args = json.loads(code_blocks(self.started["instructions"], "json")[0])
        self.plan = await self.agent.call("create_research_plan", **args, sessionId=SESSION)

    async def work(self) -> Body:
        """Complete steps until the plan is complete or awaits a person; return the last reply."""
        while (step := await self.next())["status"] == "step_ready":
            self.did.append(step["title"])
            if step["stepType"] == "checkpoint":
                return await self.ask(step)
            if step["stepType"] == "search" and self.skill == "deep-research":
                await self.keep(step)
            await self.submit(step)
        return step

    async def next(self) -> Body:
        named = {"planId": self.plan["planId"], "sessionId": SESSION}
        return await self.agent.call("get_next_step", **named)

    async def submit(self, step: Body) -> None:
        result = {**GOOD, **self.results}[step["title"]]
        await self.agent.submit(step, result, confidence=0.8, sessionId=SESSION)

    async def keep(self, step: Body) -> None:
        """Store the research that the skill's text gives as an example, for this step."""
        example = json.loads(code_blocks(self.started["instructions"], "json")[1])
        ids = {"planId": self.plan["planId"], "stepId": step["stepId"]}
        stored = await self.agent.call("store_research", **{**example, **ids})
        assert stored["artifactId"]

    async def ask(self, step: Body) -> Body:
        fields = {"summary": "The Nile, 80 %.", "questions": ["Is anything missing?"]}
        held = {"stepId": step["stepId"], "attempt": step["attempt"]}
        args = {**held, **fields, "resultSummary": "The Nile."}
        return await self.agent.call("request_user_review", **args)

    async def deliver(self, complete: Body) -> Body:
        """Store the output and complete the skill, following the calls that replies suggest."""
        args = {"title": "The answer", "content": "# The Nile"}
        stored = await self.agent.call(complete["next"]["tool"], **complete["next"]["args"], **args)
        return await self.agent.call(stored["next"]["tool"], **stored["next"]["args"])


@pytest.fixture
def skilled(world: OrgEnv) -> AgentClient:
    services = with_parts(world.dispatcher.services, InstalledSkills(SKILLS.values()))
    return AgentClient(ServerDispatcher(services, world.dispatcher.calls), world.agent.caller)


async def check_the_end(worker: Worker, complete: Body) -> None:
    assert complete["status"] == "plan_complete"
    assert complete["outputMediaType"] == "text/markdown"
    formatting = SKILLS[worker.skill].formatting_instructions
    assert complete["outputFormattingInstructions"] == formatting
    assert complete["outputMissing"] is True
    ended = await worker.deliver(complete)
    assert (ended["name"], ended["status"]) == (worker.skill, "completed")
    again = await worker.next()
    assert again["outputMissing"] is False
    assert [output["title"] for output in again["outputs"]] == ["The answer"]
    assert (await worker.agent.status(worker.plan))["outcome"] == "completed"


@pytest.mark.parametrize("name", SKILLS)
def test_builtin_skill_text_names_only_existing_tools_with_valid_arguments(name: str) -> None:
    body = SKILLS[name].body
    tools = {"create_research_plan": PLANS[name]}
    if name == "deep-research":
        tools["store_research"] = json.loads(code_blocks(body, "json")[1])
    for tool, shown in tools.items():
        parse_arguments(TOOLS[tool].arguments, shown)
    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", body))
    answers = {"plan_complete", "awaiting_review", "add_steps"}
    assert named - answers <= set(TOOLS)


@pytest.mark.parametrize("name", SKILLS)
def test_builtin_skill_text_links_to_every_file_of_the_skill(name: str) -> None:
    skill = SKILLS[name]
    linked = re.findall(r"\]\(([^)]+)\)", skill.body)
    assert set(linked) == {file.path for file in skill.extra_files}


async def test_quick_scan_skill_adds_no_steps_after_strong_results(skilled: AgentClient) -> None:
    worker = Worker(skilled, "quick-scan")
    await worker.begin()
    complete = await worker.work()
    assert worker.did == ["Find sources", "Compare the claims", "Write the page"]
    await check_the_end(worker, complete)


async def test_quick_scan_skill_adds_a_second_search_for_weak_results(skilled: AgentClient) -> None:
    worker = Worker(skilled, "quick-scan", WEAK)
    await worker.begin()
    complete = await worker.work()
    assert worker.did[:2] == ["Find sources", "Search again, with other words"]
    assert len(worker.did) == 4
    await check_the_end(worker, complete)


async def test_quick_scan_skill_rejects_a_result_without_sources(skilled: AgentClient) -> None:
    worker = Worker(skilled, "quick-scan")
    await worker.begin()
    step = await worker.next()
    held = {"stepId": step["stepId"], "attempt": step["attempt"]}
    args = {**held, "resultSummary": "Found a lot."}
    error = await skilled.refused("submit_step_result", **args)
    assert error["code"] == "INVALID_INPUT"


STRAIGHT = [
    "Frame the question",
    "Gather sources",
    "Extract the claims",
    "Compare and answer",
    "Attack the answer",
    "Let a person look",
]


async def decide(agent: AgentClient, plan: Body, decision: str, **more: str) -> Body:
    person = agent.acting_as("pat", Channel.DASHBOARD)
    return await person.call(
        "submit_user_decision", planId=plan["planId"], decision=decision, **more
    )


async def test_deep_research_skill_writes_report_after_approval(skilled: AgentClient) -> None:
    worker = Worker(skilled, "deep-research")
    await worker.begin()
    await worker.work()
    assert worker.did == STRAIGHT
    assert (await worker.next())["status"] == "awaiting_review"
    await decide(skilled, worker.plan, "approve")
    complete = await worker.work()
    assert worker.did == [*STRAIGHT, "Write the report"]
    await check_the_end(worker, complete)


async def test_deep_research_skill_adds_search_and_revision_after_weak_results(
    skilled: AgentClient,
) -> None:
    worker = Worker(skilled, "deep-research", WEAK)
    await worker.begin()
    await worker.work()
    assert worker.did == [
        *("Frame the question", "Gather sources", "Gather once more", "Extract the claims"),
        *("Compare and answer", "Attack the answer", "Answer the objections"),
        *("Revise the answer", "Let a person look"),
    ]
    await decide(skilled, worker.plan, "approve")
    await check_the_end(worker, await worker.work())


async def test_deep_research_skill_repeats_review_step_after_modify_decision(
    skilled: AgentClient,
) -> None:
    worker = Worker(skilled, "deep-research")
    await worker.begin()
    await worker.work()
    await decide(skilled, worker.plan, "modify", feedback="What of the Amazon?")
    again = await worker.next()
    assert again["title"] == "Let a person look"
    assert "What of the Amazon?" in again["instructions"]
    assert again["attempt"] == 2
    await worker.keep(again)
    await worker.ask(again)
    await decide(skilled, worker.plan, "approve")
    complete = await worker.work()
    assert worker.did == [*STRAIGHT, "Write the report"]
    await check_the_end(worker, complete)


async def test_deep_research_plan_fails_if_question_cannot_be_answered(
    skilled: AgentClient,
) -> None:
    frame = {"answerable": False, "subQuestions": ["Which is nicest?"], "doneWhen": "never"}
    worker = Worker(skilled, "deep-research", {"Frame the question": frame})
    await worker.begin()
    ended = await worker.work()
    assert (ended["status"], worker.did) == ("plan_failed", ["Frame the question"])
    assert "cannot be answered" in ended["reason"]


@pytest.mark.parametrize("verdict", ["sound", "weak"])
@pytest.mark.parametrize("severity", ["minor", "serious"])
async def test_answer_is_revised_after_a_weak_verdict_or_a_serious_objection(
    skilled: AgentClient, verdict: str, severity: str
) -> None:
    attack = {"verdict": verdict, "objections": [{"objection": "x", "severity": severity}]}
    worker = Worker(skilled, "deep-research", {"Attack the answer": attack})
    await worker.begin()
    await worker.work()
    revised = "Revise the answer" in worker.did
    assert revised == (verdict == "weak" or severity == "serious")
