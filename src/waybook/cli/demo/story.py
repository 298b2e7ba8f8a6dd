"""What the demo tells: a question, a plan, and what the agents find. All of it is made up."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

NAME = "Should we move our nightly reports from cron to a queue?"
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

#: As the agent writes it: nine steps; two more come by a branch.
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
    """How long a step takes, in minutes of the story, and what comes of it."""

    minutes: float
    result: Mapping[str, object]
    confidence: float
    #: After how many minutes the agent reads its instructions again: a sign of life.
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
                "why": "Missed runs cost 37 hours last quarter; a queue shows them at once.",
                "effort": "12 person-days, and 40 a month.",
                "if we do nothing": "About three lost hours a week.",
            },
            0.9,
        ),
    }
)

REVIEW = "Move the nine chained reports first, then the other five. Shall we write it up?"
FEEDBACK = "Say what it costs us to do nothing."
REVIEW_AGAIN = "Now with the cost of doing nothing: about three lost hours a week."
