"""Texts of the demo: question, plan, results, and the documents of each language model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

RUN_NAME = "Move the nine chained reports to a queue"
REQUEST = (
    "Move the nine chained nightly reports from cron to a managed queue. Missed runs cost us 37 "
    "hours last quarter, and nobody sees a failed run before nine in the morning. The other five "
    "reports stay where they are. We have 12 person-days."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOpinion:
    """Opinion of a simulated model, on which all its documents are based."""

    idea: str
    why: str
    cost: str
    doubt: str
    risk: str
    first: str


VIEWS: Mapping[str, ModelOpinion] = MappingProxyType(
    {
        "alpha": ModelOpinion(
            idea="Move one chain a week, the shortest first.",
            why="Each move teaches us something before the next one is at stake.",
            cost="11 person-days over nine weeks",
            doubt="a chain that cannot run without one that has not moved yet",
            risk="two schedulers side by side, and nobody sure which one ran",
            first="Draw which report waits for which.",
        ),
        "beta": ModelOpinion(
            idea="Run both side by side, and compare every report before cron is switched off.",
            why="A report that is wrong is worse than one that is late.",
            cost="12 person-days, most of them for comparing",
            doubt="reports that differ from night to night for good reasons",
            risk="readers who get every report twice",
            first="Give each report a key, so that sending it twice counts once.",
        ),
        "gamma": ModelOpinion(
            idea="Move all nine in one weekend, with a rollback.",
            why="Half a move is the most expensive state to be in.",
            cost="7 person-days, and a weekend for two",
            doubt="a rollback that takes longer than an hour",
            risk="nine things that can go wrong in the same night",
            first="Rehearse the rollback before the move.",
        ),
    }
)

AGREED_PLAN = (
    "three waves of three reports, side by side for a week each, with a rollback in an hour"
)

RUN_FEEDBACK: Mapping[str, str] = MappingProxyType(
    {
        "thesis": "I want a rollback within an hour.",
        "antithesis": "Side by side, but only for one week.",
        "synthesis": "Three waves: safer than one weekend.",
        "parenthesis": "Name who is on call in each wave.",
    }
)

_PROPOSAL = "## In short\n\n{idea} {why}\n\n"
_REVIEW = "## In short\n\n{whose} says: *{theirs}* "
_PLAN = "## In short\n\nWe do it in {agreed}.\n\n"

#: Texts of the demo's documents. A document that is not listed here gets `_BROUGHT_TOGETHER`.
TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "business_case": _PROPOSAL
        + "| | |\n|---|---|\n| cost | {cost} |\n| benefit | 37 hours a quarter |\n\n"
        + "What would prove this wrong: {doubt}.",
        "feature_spec": _PROPOSAL
        + "1. A failed run is reported within five minutes.\n2. A run can be repeated by hand.\n"
        + "3. A report that waits for another one says so.",
        "success_metrics": _PROPOSAL
        + "- Missed runs a quarter: 11 today, at most 1.\n- Hours lost: 37 today, at most 3.\n"
        + "- A failed run is seen within 5 minutes, not at nine.",
        "technical_approach": _PROPOSAL + "First: {first}\n\nThe risk we take: {risk}.",
        "business_case_critique": _REVIEW
        + "The sum is right, but it leaves out {doubt}.\n\n**Verdict**: go, if that is answered.",
        "dependency_map": _REVIEW
        + "It depends on the order of the chains, on the managed queue, and on two people who "
        "know the old scripts. {first}",
        "non_functional_requirements": _REVIEW
        + "It says nothing of how late a report may be. We ask for: by six in the morning, every "
        "morning.",
        "risk_register": _REVIEW
        + "\n\n| risk | early sign | answer |\n|---|---|---|\n"
        + "| {risk} | a report without a sender | one list of who runs what |\n"
        + "| {doubt} | a trial that fails | stop and ask |",
        "technical_feasibility_assessment": _REVIEW
        + "It can be built with what we have. The hard part is not the queue but the nine scripts: "
        "four of them write to the same folder, and two rely on the clock.\n\n",
        "product_requirements": _PLAN
        + "1. No report is lost, none is sent twice.\n2. A failed run is reported within five "
        "minutes.\n3. Each wave can be rolled back within an hour.",
        "system_architecture": _PLAN
        + "Each report becomes a task with a key of its own. A task starts when those it waits for "
        "are done. The five reports that stay keep their cron lines.",
        "tech_stack": _PLAN
        + "| part | choice | why |\n|---|---|---|\n| queue | managed, $40 a month | nobody has to "
        "run it |\n| tasks | the scripts as they are | they work |\n| alarms | what is on call "
        "today | one place to look |",
        "technical_requirements": _PLAN
        + "The system **shall** give each report a key; **shall** start it when its inputs are "
        "there; **shall** report a failure within five minutes.",
        "master_plan": _PLAN
        + "| wave | reports | person-days | rollback |\n|---|---|---|---|\n| 1 | the three "
        "shortest | 4 | cron lines kept |\n| 2 | three that share a folder | 5 | cron lines kept "
        "|\n| 3 | the last three | 3 | cron lines kept |",
        "milestone_schema": _PLAN
        + "- M1: keys and alarms, nothing moved yet.\n- M2, M3, M4: a wave each, compared for a "
        "week.\n- M5: the nine cron lines are gone.",
        "actionable_checklist": _PLAN
        + "1. {first}\n2. Write the keys into the nine scripts.\n3. Rehearse the rollback.\n"
        "4. Move wave 1 on a Tuesday, with Ana on call.\n5. Compare for a week, then wave 2 with "
        "Jo, and wave 3 with Sam.",
        "updated_master_plan": _PLAN
        + "Ana is on call in wave 1, Jo in wave 2, Sam in wave 3. Nothing else has changed.",
        "advisor_recommendations": _PLAN
        + "First step: {first} Wave 1 is on the first Tuesday of the month. Stop if a trial "
        "shows {doubt}. What we would watch most closely: {risk}.\n\n**Recommendation**: go. It "
        "costs 12 person-days and gives back 37 hours every quarter.",
    }
)

_BROUGHT_TOGETHER = (
    "## In short\n\nOf {whose} we keep: *{theirs}* Of our own: {idea} Together: {agreed}."
)


def document_for(job: Mapping[str, object]) -> str:
    documents = job["documents"]
    wanted = documents if isinstance(documents, list) else []
    key = str(wanted[0]["documentKey"]) if wanted else ""
    model = str(job["modelId"])
    if job["jobType"] == "PLAN" or key == "comparison_vector":
        return json.dumps(_notes(key, model), ensure_ascii=False, indent=1)
    template = TEXTS.get(key, _BROUGHT_TOGETHER)
    view, other = VIEWS[model], _author_before(job, model)
    body = template.format(
        idea=view.idea,
        why=view.why,
        cost=view.cost,
        doubt=view.doubt,
        risk=view.risk,
        first=view.first,
        whose=other,
        theirs=VIEWS[other].idea,
        agreed=AGREED_PLAN,
    )
    return f"# {key.replace('_', ' ').capitalize()}\n\n{body}"


def _notes(key: str, model: str) -> dict[str, object]:
    view = VIEWS[model]
    return {
        "title": RUN_NAME,
        "request": REQUEST,
        "document": key,
        "goals": ["no report is lost", "a failed run is seen at once"],
        "look at": [view.doubt, view.risk],
    }


def _author_before(job: Mapping[str, object], model: str) -> str:
    inputs = job["inputs"]
    job_inputs: Sequence[Mapping[str, object]] = inputs if isinstance(inputs, list) else ()
    authors = [
        str(job_input["modelId"]) for job_input in job_inputs if job_input.get("modelId") in VIEWS
    ]
    return next((author for author in authors if author != model), model)


PLAN_NAME = "Should we move our nightly reports from cron to a queue?"
QUESTION = "Is it worth moving the nightly reports from cron to a queue, and what would it take?"

MAP, MISSED, WHY = (
    "Map how the reports run today",
    "List last quarter's missed runs",
    "Find out why runs were late",
)
INTERVIEW, REPLAY = "Interview the on-call engineer", "Replay one night with tracing"
PRICE, HOSTING = "Price three queues", "Compare self-hosting costs"
EFFORT, RISKS = "Estimate the work of moving", "Look for what could go wrong"
AGREE, WRITE = "Agree on the recommendation", "Write the recommendation"

PLAN_STEPS = (
    (MAP, "search", "Who starts what, when, and what waits for what."),
    (MISSED, "search", "Every run that was late or missing, with its cost."),
    (WHY, "analyze", "The causes, ordered by what they cost us."),
    (PRICE, "search", "Three candidates, their price for our load."),
    (HOSTING, "analyze", "Only matters if we would run the queue ourselves."),
    (EFFORT, "analyze", "In person-days, report by report."),
    (RISKS, "critique", "What breaks while both run side by side."),
    (AGREE, "checkpoint", "Show a person the draft before anything is written up."),
    (WRITE, "synthesize", "One page, the decision first."),
)
BRANCH_STEPS = ((INTERVIEW, "search"), (REPLAY, "analyze"))

CONDITIONS = (
    {
        "afterStepOrder": 3,
        "conditionExpression": "confidence < 0.5",
        "ifTrueAction": "add_steps",
        "actionParams": {
            "steps": [
                {"stepType": kind, "title": title, "instructions": "To be surer of the causes."}
                for title, kind in BRANCH_STEPS
            ]
        },
    },
    {
        "afterStepOrder": 4,
        "conditionExpression": "result.managed == true",
        "ifTrueAction": "skip_to",
        "actionParams": {"targetStepOrder": 6, "reason": "a managed queue needs no hosting"},
    },
)


@dataclass(frozen=True, slots=True)
class ScriptedWork:
    minutes: float
    result: Mapping[str, object]
    confidence: float
    heartbeats: tuple[float, ...] = ()


WORK: Mapping[str, ScriptedWork] = MappingProxyType(
    {
        MAP: ScriptedWork(8, {"jobs": 14, "chained": 9}, 0.95),
        MISSED: ScriptedWork(22, {"missed": 11, "hours lost": 37}, 0.9),
        WHY: ScriptedWork(27, {"causes": ["overlap", "silent failures"]}, 0.42),
        INTERVIEW: ScriptedWork(12, {"quote": "Nobody sees a failed run before nine."}, 0.9),
        REPLAY: ScriptedWork(13, {"overlapping minutes": 52}, 0.85),
        PRICE: ScriptedWork(10, {"managed": True, "per month": 40}, 0.8),
        EFFORT: ScriptedWork(64, {"person-days": 12}, 0.75, (20, 42)),
        RISKS: ScriptedWork(
            45, {"risks": ["reports sent twice"], "remedy": "idempotency keys"}, 0.8, (22,)
        ),
        AGREE: ScriptedWork(6, {"recommendation": "move, the nine chained reports first"}, 0.85),
        WRITE: ScriptedWork(
            8,
            {
                "decision": "Yes: move the nine chained reports first.",
                "why": "Missed runs cost 37 hours a quarter; a queue shows them.",
                "effort": "12 person-days, and $40 a month.",
                "if we do nothing": "About three lost hours a week.",
            },
            0.9,
        ),
    }
)

REVIEW = "Move the nine chained reports first, then the other five. Shall we write it up?"
PLAN_FEEDBACK = "Say what it costs us to do nothing."
REVIEW_AGAIN = "Now with the cost of doing nothing: about three lost hours a week."
