"""Design decisions on points that the specifications leave open, and the tests that prove them.

The mark `@decision("A5")` says that a test proves the decision A5. `tests/plan/test_decisions.py`
checks that the tests of the plan rules prove every decision about plans. `ELSEWHERE` lists the
parts of decisions that only other tests can prove, and the folders of those tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

TestT = TypeVar("TestT", bound=Callable[..., object])

DECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "A1": "Failing a pending step goes over in_progress, for there is no shorter way.",
        "A2": "A plan reaches completed from anywhere by going over executing.",
        "A3": "Approving or skipping the last step completes the plan.",
        "A4": "Failing or removing the last open step completes the plan.",
        "A5": "A stalled plan is woken by the next call for work, by a result and by a review.",
        "A6": "Waking a plan restarts its clock, while its stalled steps stay visible.",
        "A7": "The time a person takes to answer is no stall.",
        "A8": "A plan that is over refuses every change.",
        "A9": "When a plan fails its other steps stay as they were.",
        "A10": "A session that asks again gets the step it holds, never a second one.",
        "A11": "A call repeated under its idempotency key counts once.",
        "A12": "Calls on one plan take turns.",
        "A13": "A failed step can be tried again.",
        "A14": "Failing the last step ends the plan, unless it goes back to pending at once.",
        "A15": "A result of an older attempt is refused and kept.",
        "A16": "A plan is planning while every step is pending, whatever the steps derive.",
        "A18": "A plan begins with a step; only one that never began can be emptied, and says so.",
        "A19": "The step to look at is the one awaiting input, else the first in progress.",
        "A20": "Failed steps are told apart from those done, running and pending.",
        "A21": "Skipping ahead skips pending steps only.",
        "A22": "A branch points at a step, not at a place; nobody removes what it points at.",
        "A23": "Approval looks at the conditions like a result does.",
        "A24": "Conditions are looked at in order of creation, once; a failing one is the last.",
        "A25": "A branch that fails the plan is told by the step_completed entry; no step failed.",
        "A26": "The truth of an entry is in its changes, and entries are numbered without a gap.",
        "A27": "The first call of a new session on a plan with history is a resumption, once.",
        "A28": "One review at a time; meanwhile running steps may finish and nothing starts.",
        "A31": "Reordering names exactly the steps there are.",
        "A32": "The count done never falls, and what adds steps says so.",
        "A33": "Percent is rounded half up, with the counts beside it.",
        "A34": "A stalled plan is an open plan.",
        "A35": "Only a newly found stall writes.",
        "A36": "A stalled plan may fail by its table, but no rule makes it.",
        "A37": "The call log is telemetry; the audit is the record.",
        "A38": "A review may bring the result that approval keeps.",
        "A39": "A session is what the caller calls it.",
    }
)

#: Decisions about runs, maps, and the progress shown on maps. Decisions whose number begins with X
#: concern both plans and runs.
RUN_DECISIONS: Mapping[str, str] = MappingProxyType(
    {
        "B1": "A step closes with its last job, and closing is final.",
        "B2": "Closed before failed before in progress before passed before not started.",
        "B3": "A leaf closes like any step.",
        "B4": "A step is passed when any step behind it, however far, has been reached.",
        "B5": "All jobs of a step come at once, and a continuation when its parent ends.",
        "B6": "Completed steps and stages never fall; failed ones may, after a retry.",
        "B7": "Nothing of nothing is not completed, and an empty recipe is refused.",
        "B8": "A stage with a failed step is failed, whatever else runs in it.",
        "B9": "The steps as listed are what is counted: 3 of 13, 23 percent.",
        "B10": "Lineages are carried: what is counted are distinct origins and authors.",
        "B12": "A step per source document goes by its first input, made by one predecessor.",
        "B13": "A PLAN that all models feed on makes one output for each, any other one.",
        "B14": "A stage that has not begun is 0 of 0; its map is its own read.",
        "B15": "A needed document of the same stage needs a path of edges from its maker.",
        "B16": "What cannot be told becomes null with a warning; the rest is told.",
        "B17": "Two jobs that end at once are counted one after the other.",
        "X1": "A plan completes with failed steps; in its report, the stage is failed.",
        "X2": "A plan's six step statuses are four in a report.",
        "X3": "A started stage keeps its structure; a plan's report carries its revision.",
    }
)


@dataclass(frozen=True, slots=True)
class ProofElsewhere:
    """Part of a decision that no test of the plan rules can prove, and the folder of its tests."""

    what: str
    place: str


ELSEWHERE: Mapping[str, ProofElsewhere] = MappingProxyType(
    {
        "A10": ProofElsewhere("a repeated key gets the stored answer", "tests/app"),
        "A11": ProofElsewhere("every mutating tool keeps its answer under its key", "tests/app"),
        "A12": ProofElsewhere("the plan's row is locked first", "tests/app"),
        "A35": ProofElsewhere("get_plan_status locks only to write", "tests/app"),
        "A37": ProofElsewhere("a lost log line loses no audit entry", "tests/app"),
    }
)


def decision(*names: str) -> Callable[[TestT], TestT]:
    """Mark a test with the design decisions that it proves.

    Raises:
        ValueError: a name is not in the list of decisions.
    """
    unknown = [name for name in names if name not in {*DECISIONS, *RUN_DECISIONS}]
    if unknown:
        raise ValueError(f"no such decision: {unknown}")

    def named(test: TestT) -> TestT:
        return test

    return named
