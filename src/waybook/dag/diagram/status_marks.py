"""What is shown upon a map of where things stand: the overlay, as a drawing needs it.

It comes from a report, of a run or of anybody's snapshot, or from a plan.

How each status looks, wherever it is shown: a sign and a word in texts, an icon in drawings.

No status is told by colour alone: every sign and every icon has a shape of its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from waybook.dag.expansion.counts import StageCounts
from waybook.dag.progress.report import Report, StageReport, StepReport


@dataclass(frozen=True, slots=True)
class StatusSymbol:
    symbol: str
    label: str
    #: Path data around the point where the pen is; about ten pixels wide.
    icon: str


_CIRCLE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"

#: Of plans and runs, of their steps and stages.
# fmt: off
STATUS_SYMBOLS: Mapping[str, StatusSymbol] = MappingProxyType({
    "completed":      StatusSymbol("✓", "completed",      "m-5 0l3.5 4 6.5-8"),
    "skipped":        StatusSymbol("»", "skipped",        "m-5-4l4 4-4 4m5-8l4 4-4 4"),
    "failed":         StatusSymbol("✗", "failed",         "m-4-4l8 8m0-8l-8 8"),
    "awaiting_input": StatusSymbol("!", "awaiting input", "m0-5v6m0 4v.1"),
    "stalled":        StatusSymbol("▲", "stalled",        "m0-5l5.5 10h-11z"),
    "in_progress":    StatusSymbol("◐", "in progress",    "m-3-5l8 5-8 5z"),
    "pending":        StatusSymbol("·", "pending",        _CIRCLE),
    "not_started":    StatusSymbol("·", "not started",    _CIRCLE),
    "planning":       StatusSymbol("·", "planning",       _CIRCLE),
    "executing":      StatusSymbol("◐", "executing",      "m-3-5l8 5-8 5z"),
    "awaiting_review": StatusSymbol("!", "awaiting review", "m0-5v6m0 4v.1"),
    "awaiting_feedback": StatusSymbol("!", "awaiting feedback", "m0-5v6m0 4v.1"),
    "unknown":        StatusSymbol("?", "unknown",        "m-3-3a3 3 0 1 1 3 4v1m0 3v.1"),
    "bare":           StatusSymbol("",  "",               ""),
})
# fmt: on

NOT_STARTED, UNKNOWN = "not_started", "unknown"
#: Of what stands on a map that shows nothing but itself.
NO_STATUS = "bare"
#: What is over, and well.
DONE_STATUSES = frozenset({"completed", "skipped"})
#: The first of these that one of many is in, all together are in.
STATUS_PRECEDENCE = ("failed", "awaiting_input", "stalled", "in_progress")


def symbol_for(status: str) -> StatusSymbol:
    """How a status looks."""
    return STATUS_SYMBOLS.get(status, STATUS_SYMBOLS[UNKNOWN])


def aggregate_status(statuses: Sequence[str]) -> str:
    """The status of many: what they all are, else the loudest of them.

    >>> (
    ...     aggregate_status(["completed", "completed"]),
    ...     aggregate_status(["completed", "failed", "in_progress"]),
    ... )
    ('completed', 'failed')
    >>> aggregate_status(["completed", "pending"]), aggregate_status(["completed", "skipped"])
    ('in_progress', 'completed')
    """
    found = Counter(statuses)
    if len(found) == 1:
        return statuses[0]
    if found.keys() <= DONE_STATUSES:
        return "completed"
    return next((status for status in STATUS_PRECEDENCE if status in found), "in_progress")


@dataclass(frozen=True, slots=True)
class Annotation:
    status: str
    #: What is told beside it: jobs done of jobs there are.
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Everything that is shown on the map."""

    #: By stage and step.
    steps: Mapping[tuple[str, str], Annotation] = field(default_factory=dict)
    stages: Mapping[str, Annotation] = field(default_factory=dict)
    #: What stands beside the way out of a stage.
    captions: Mapping[str, str] = field(default_factory=dict)
    #: Of what has no other.
    default: Annotation = Annotation(NOT_STARTED)

    def step(self, stage: str, key: str) -> Annotation:
        """The mark of a step."""
        return self.steps.get((stage, key), self.default)

    def stage(self, slug: str) -> Annotation:
        """The mark of a stage."""
        return self.stages.get(slug, self.default)


#: The map alone.
NO_ANNOTATIONS = Annotations(default=Annotation(NO_STATUS))


def annotations_from_report(
    report: Report,
    *,
    expected: Mapping[str, StageCounts] | None = None,
    captions: Mapping[str, str] | None = None,
) -> Annotations:
    """The marks that a report comes to; what has no jobs yet is told how many it will have."""
    counts, steps = expected or {}, dict[tuple[str, str], Annotation]()
    for slug, found in counts.items():
        steps.update(
            {(slug, key): Annotation(NOT_STARTED, _jobs(n)) for key, n in found.units.items()}
        )
    for stage in report["stages"]:
        slug = stage["stageSlug"]
        for step in stage["steps"] or ():
            place = slug, step["stepKey"]
            note = _done(step) or (steps[place].note if place in steps else "")
            steps[place] = Annotation(str(step["status"]), note)
    stages = {stage["stageSlug"]: _stage_mark(stage) for stage in report["stages"]}
    return Annotations(steps=steps, stages=stages, captions=captions or {})


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _done(step: StepReport) -> str:
    jobs = step["jobs"]
    total = jobs["done"] + jobs["active"] + jobs["failed"]
    return f"{jobs['done']}/{total}" if total else ""


def _stage_mark(stage: StageReport) -> Annotation:
    status = UNKNOWN if stage["status"] is None else str(stage["status"])
    progress = stage["progress"]
    if not progress or not progress["totalSteps"]:
        return Annotation(status)
    told = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
    if stage["documentsExpected"]:
        told += f", {stage['documentsAvailable']} of {stage['documentsExpected']} documents"
    return Annotation(status, told)
