"""What is shown on a drawing of where things stand: for each status an icon and a word.

The overlay comes from a report, of a run, of anybody's snapshot, or of a plan. No status is told
by colour alone: every icon has a shape of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from waybook.dag.counts import StageCounts
from waybook.dag.model import Standing
from waybook.dag.report import Report, StageReport, StepReport


@dataclass(frozen=True, slots=True)
class Look:
    word: str
    #: The icon as path data, around the point where the pen is; about ten pixels wide.
    icon: str


# fmt: off
LOOKS: Mapping[str, Look] = MappingProxyType({
    "completed":      Look("completed",      "m-5 0l3.5 4 6.5-8"),
    "skipped":        Look("skipped",        "m-5-4l4 4-4 4m5-8l4 4-4 4"),
    "failed":         Look("failed",         "m-4-4l8 8m0-8l-8 8"),
    "awaiting_input": Look("awaiting input", "m0-5v6m0 4v.1"),
    "stalled":        Look("stalled",        "m0-5l5.5 10h-11z"),
    "in_progress":    Look("in progress",    "m-3-5l8 5-8 5z"),
    "pending":        Look("pending",        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    "not_started":    Look("not started",    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    "unknown":        Look("unknown",        "m-3-3a3 3 0 1 1 3 4v1m0 3v.1"),
})
# fmt: on

#: What is over, and well.
DONE = frozenset({"completed", "skipped"})
#: The first of these that one of many is in, all together are in.
LOUDEST = ("failed", "awaiting_input", "stalled", "in_progress")
NOT_STARTED = str(Standing.NOT_STARTED)


@dataclass(frozen=True, slots=True)
class Mark:
    status: str
    #: What is told beside it: jobs done of jobs there are.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Everything that is shown on the map; what has no mark has not begun."""

    #: By stage and step.
    steps: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    stages: Mapping[str, Mark] = field(default_factory=dict)
    #: What stands beside the way out of a stage.
    captions: Mapping[str, str] = field(default_factory=dict)

    def step(self, stage: str, key: str) -> Mark:
        """The mark of a step."""
        return self.steps.get((stage, key), UNTOUCHED)

    def stage(self, slug: str) -> Mark:
        """The mark of a stage."""
        return self.stages.get(slug, UNTOUCHED)


UNTOUCHED = Mark(NOT_STARTED)
NO_MARKS = Marks()


def look_of(status: str) -> Look:
    """How a status looks."""
    return LOOKS.get(status, LOOKS["unknown"])


def together(statuses: Sequence[str]) -> str:
    """The status of many: what they all are, else the loudest of them.

    >>> together(["completed", "completed"]), together(["completed", "failed", "in_progress"])
    ('completed', 'failed')
    >>> together(["completed", "pending"]), together(["completed", "skipped"])
    ('in_progress', 'completed')
    """
    found = Counter(statuses)
    if len(found) == 1:
        return statuses[0]
    if found.keys() <= DONE:
        return "completed"
    return next((status for status in LOUDEST if status in found), "in_progress")


def marks_of(
    report: Report,
    *,
    expected: Mapping[str, StageCounts] | None = None,
    captions: Mapping[str, str] | None = None,
) -> Marks:
    """The marks that a report comes to; what has no jobs yet is told how many it will have."""
    counts, steps = expected or {}, dict[tuple[str, str], Mark]()
    for slug, found in counts.items():
        steps.update({(slug, key): Mark(NOT_STARTED, _jobs(n)) for key, n in found.units.items()})
    for stage in report["stages"]:
        slug = stage["stageSlug"]
        for step in stage["steps"] or ():
            place = slug, step["stepKey"]
            note = _done(step) or steps.get(place, UNTOUCHED).note
            steps[place] = Mark(str(step["status"]), note)
    stages = {stage["stageSlug"]: _stage_mark(stage) for stage in report["stages"]}
    return Marks(steps=steps, stages=stages, captions=captions or {})


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _done(step: StepReport) -> str:
    jobs = step["jobs"]
    total = jobs["done"] + jobs["active"] + jobs["failed"]
    return f"{jobs['done']}/{total}" if total else ""


def _stage_mark(stage: StageReport) -> Mark:
    status = "unknown" if stage["status"] is None else str(stage["status"])
    progress = stage["progress"]
    if not progress or not progress["totalSteps"]:
        return Mark(status)
    told = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
    if stage["documentsExpected"]:
        told += f", {stage['documentsAvailable']} of {stage['documentsExpected']} documents"
    return Mark(status, told)
