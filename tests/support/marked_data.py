"""Hostile texts for every text field, each with a unique marker."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, get_args

from pydantic import BaseModel

from injection_samples import ALL, samples
from org_env import AgentClient, Body, branch_condition
from sample_definitions import make_definition, make_recipe_step, make_stage
from waybook.app.registry import TOOLS
from waybook.background import render_all_orgs

#: Arguments that are not free text, such as names, ids and enumerated values, or that are never
#: stored.
FORMAL = frozenset(
    {
        *(
            "action",
            "assignee",
            "candidate",
            "conditionExpression",
            "cursor",
            "dagSlug",
            "definition",
        ),
        *("documentKey", "file", "fromStage", "jobTypes", "kinds", "mediaType", "model", "modelId"),
        *("models", "part", "place", "query", "resultSchema", "schema", "seen", "stageSlug"),
        "stepKey",
    }
)
#: Path of a text argument: the name of the tool, then the names of the nested arguments.
Leaf = tuple[str, ...]


def text_leaves() -> Iterator[Leaf]:
    """Yield the path of every free-text field in the arguments of all tools."""
    for tool in TOOLS.values():
        yield from _leaves(tool.arguments, (tool.name,))


def _leaves(arguments: type[BaseModel], path: Leaf) -> Iterator[Leaf]:
    for field_info in arguments.model_fields.values():
        name = str(field_info.alias)
        inner = [*_models(field_info.annotation)]
        if name == "branchingConditions" and len(path) > 1:
            continue  # A step's conditions have the same text fields as a plan's conditions.
        for model in inner:
            yield from _leaves(model, (*path, name))
        if not inner and _is_text(field_info.annotation) and not _is_formal(name):
            yield (*path, name)


def _is_formal(name: str) -> bool:
    return name in FORMAL or name.endswith(("Id", "Ids", "Key"))


def _is_text(annotation: object) -> bool:
    return annotation in {str, Any} or any(map(_is_text, get_args(annotation)))


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


@dataclass
class MarkedWriter:
    """Writer of hostile texts that records in which argument it placed each marker."""

    #: For each marker, the argument in which it was placed.
    written: dict[str, Leaf] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def long(self, *leaf: str) -> str:
        return self._marked(leaf, ALL)

    def short(self, *leaf: str, room: int = 180) -> str:
        """Return a line with a marker and some injection samples, which differ in each call."""
        choice = [*samples(room - 24)]
        return self._marked(leaf, choice[next(self._numbers) % len(choice)])

    def printable(self, *leaf: str, room: int = 180) -> str:
        """Return a line as `short` does, but with printable characters only."""
        text = self.short(*leaf, room=room)
        return "".join(character for character in text if character.isprintable())

    def _marked(self, leaf: Leaf, text: str) -> str:
        mark = f"q{next(self._numbers):04}q"
        self.written[mark] = leaf
        return f"{mark} {text} {mark}"


async def marked_plan(agent: AgentClient, ink: MarkedWriter) -> Body:
    made = "create_research_plan"
    step = {"stepType": "custom", "title": ink.short(made, "steps", "title")}
    branch = {
        "stepType": "search",
        "instructions": ink.long(made, *BRANCH, "instructions"),
        "touches": _touches(ink, made, *BRANCH),
    }
    plan = await agent.call(
        made,
        name=ink.short(made, "name"),
        researchQuestion=ink.long(made, "researchQuestion"),
        steps=[
            {
                **step,
                "instructions": ink.long(made, "steps", "instructions"),
                "touches": _touches(ink, made, "steps"),
            }
            for _ in range(6)
        ],
        branchingConditions=[
            branch_condition(
                1,
                "true",
                "add_steps",
                steps=[{**branch, "title": ink.short(made, *BRANCH, "title")}],
                reason=ink.short(made, "branchingConditions", "actionParams", "reason"),
            )
        ],
        outputFormattingNotes=ink.long(made, "outputFormattingNotes"),
    )
    first = await agent.take(plan)
    await agent.submit(first, **_result(ink))
    await _research(agent, ink, plan)
    await _worked(agent, ink, plan)
    await _changed(agent, ink, plan)
    await _reviewed(agent, ink, await agent.take(plan))
    for subject in (plan["planId"], *plan["stepIds"]):
        await agent.call("comment", subjectId=subject, text=ink.long("comment", "text"))
    return plan


def _touches(ink: MarkedWriter, *leaf: str) -> list[str]:
    return [ink.printable(*leaf, "touches", room=60)[:6]]


async def _worked(agent: AgentClient, ink: MarkedWriter, plan: Body) -> None:
    """Let a worker reserve, report and give back work on the plan."""
    named = {"planId": plan["planId"]}
    await agent.call("reserve_work", **named, agent=ink.printable("reserve_work", "agent"))
    report = {
        "agent": ink.printable("report_worker", "agent"),
        "host": ink.printable("report_worker", "host"),
        "reason": ink.short("report_worker", "reason"),
        "lines": [ink.short("report_worker", "lines")],
    }
    await agent.call("report_worker", **named, **report, state="parked", sessionId="worker")
    taken = await agent.take(plan)
    given = {
        "reason": ink.short("give_back", "reason"),
        "agent": ink.printable("give_back", "agent"),
        "resumesAt": "2100-01-01T14:00:00Z",
    }
    await agent.call("give_back", stepId=taken["stepId"], **given)


BRANCH = ("branchingConditions", "actionParams", "steps")


def _result(ink: MarkedWriter) -> Body:
    made = "submit_step_result"
    return {
        "result": {"found": ink.long(made, "resultSummary")},
        "stepExecutionReport": {"said": ink.long(made, "stepExecutionReport")},
        "outputFormattingNotes": ink.long(made, "outputFormattingNotes"),
    }


async def _research(agent: AgentClient, ink: MarkedWriter, plan: Body) -> None:
    made = "store_research"
    source = {
        "title": ink.printable(made, "sources", "title"),
        "quote": ink.short(made, "sources", "quote", room=1_500),
        "url": f"https://example.org/{ink.printable(made, 'sources', 'url', room=60)[:6]}",
    }
    stored = {
        "kind": ink.printable(made, "kind", room=60)[:6],
        "title": ink.printable(made, "title"),
        "content": ink.long(made, "content"),
        "tags": [ink.printable(made, "tags", room=50)[:50]],
        "metadata": {"said": ink.long(made, "metadata")},
    }
    await agent.call(made, planId=plan["planId"], sources=[source], **stored)
    await agent.call(made, sources=[source], **stored)


async def _changed(agent: AgentClient, ink: MarkedWriter, plan: Body) -> None:
    made = "modify_plan"
    inner = (made, "modifications")
    step = {"stepType": "search", "title": ink.short(*inner, "add_steps", "steps", "title")}
    added = {
        **step,
        "instructions": ink.long(*inner, "add_steps", "steps", "instructions"),
        "touches": _touches(ink, *inner, "add_steps", "steps"),
    }
    updated = {"instructions": ink.long(*inner, "update_step_instructions", "instructions")}
    failed = {"reason": ink.short(*inner, "fail_step", "reason")}
    titled = {"title": ink.short(*inner, "set_title", "title")}
    _, _, third, fourth, *_ = plan["stepIds"]
    await agent.call(
        made,
        planId=plan["planId"],
        modifications=[
            {"add_steps": {"steps": [added]}},
            {"update_step_instructions": {"stepId": third, **updated}},
            {"set_title": {"stepId": third, **titled}},
            {"set_touches": {"stepId": third, "touches": _touches(ink, *inner, "set_touches")}},
            {"fail_step": {"stepId": fourth, **failed}},
        ],
        modificationRationale=ink.short(made, "modificationRationale", room=1_900),
    )


async def marked_copy(agent: AgentClient, ink: MarkedWriter, plan: Body) -> Body:
    name = ink.short("copy_plan", "name")
    copied = await agent.call("copy_plan", planId=plan["planId"], name=name)
    reason = ink.short("modify_plan", "modifications", "cancel_plan", "reason")
    ending = [{"cancel_plan": reason}]
    await agent.call("modify_plan", planId=copied["planId"], modifications=ending)
    return copied


async def _reviewed(agent: AgentClient, ink: MarkedWriter, taken: Body) -> None:
    made = "request_user_review"
    args = {
        "stepId": taken["stepId"],
        "summary": ink.long(made, "summary"),
        "questions": [ink.short(made, "questions", room=1_900)],
        "resultSummary": {"found": ink.long(made, "resultSummary")},
    }
    await agent.call(made, **args)
    feedback = ink.long("submit_user_decision", "feedback")
    decided = {"stepId": taken["stepId"], "decision": "modify", "feedback": feedback}
    await agent.call("submit_user_decision", **decided)
    await agent.call(made, **args)


async def marked_output(agent: AgentClient, ink: MarkedWriter) -> Body:
    made = "store_research_output"
    started = await agent.call("start_skill", name="survey", sessionId="ink")
    plan = await agent.plan(1, name=ink.short("create_research_plan", "name"), sessionId="ink")
    await agent.submit(await agent.take(plan), **_result(ink))
    output = {"title": ink.printable(made, "title"), "content": ink.long(made, "content")}
    await agent.call(made, planId=plan["planId"], mediaType="text/markdown", **output)
    ended = {"skillExecutionId": started["skillExecutionId"]}
    await agent.call("complete_skill", **ended, outcome=ink.short("complete_skill", "outcome"))
    return plan


async def marked_run(agent: AgentClient, ink: MarkedWriter) -> Body:
    """Create a run with a failed job, documents, feedback, and an open second stage."""
    slug = "inked"
    stages = (
        make_stage(
            "one", make_recipe_step("step", outputs=[{"documentKey": "paper", "render": True}])
        ),
        make_stage("two", make_recipe_step("last", inputsRequired=[PAPER, QUESTION_KEY])),
    )
    await agent.call("add_dag", definition=make_definition(slug, *stages))
    named = {"name": ink.short("start_run", "name"), "input": ink.long("start_run", "input")}
    run = await agent.call("start_run", dagSlug=slug, models=["a", "b"], **named)
    job = await agent.job(run)
    held = {"jobId": job["jobId"], "attempt": job["attempt"]}
    error = ink.short("fail_job", "error", room=1_900)
    await agent.call("fail_job", **held, error=error, retryable=False)
    await agent.call("retry_failed", runId=run["runId"], stageSlug="one")
    first = await agent.job(run)
    await agent.submit_documents(first, ink.long(*DOCUMENT, "content"))
    second = await agent.job(run)
    document = {"documentKey": "paper", "content": ink.long(*DOCUMENT, "content")}
    held = {"jobId": second["jobId"], "attempt": second["attempt"]}
    await agent.call("submit_job_result", **held, documents=[document])
    while await render_all_orgs(agent.dispatcher.services):
        pass
    await agent.feedback(run, "one", ink.long("submit_stage_feedback", "feedback"))
    return run


async def marked_cancellation(agent: AgentClient, ink: MarkedWriter) -> Body:
    copied, name = await agent.run(), ink.short("copy_run", "name")
    run = await agent.call("copy_run", runId=copied["runId"], fromStage="scope", name=name)
    reason = ink.long("cancel_run", "reason")
    await agent.call("cancel_run", runId=run["runId"], reason=reason)
    return run


PAPER = {"stage": "one", "documentKey": "paper"}
QUESTION_KEY = {"documentKey": "question"}
DOCUMENT = ("submit_job_result", "documents")
