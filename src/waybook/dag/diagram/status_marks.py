"""Status annotations of a diagram, and the symbol of each status.

Every symbol has a distinct shape, so that no status is shown by color alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from waybook.dag.expansion.counts import StageCounts
from waybook.dag.progress.report import Report, StageReport


@dataclass(frozen=True, slots=True)
class StatusSymbol:
    symbol: str
    label: str
    #: SVG path of the icon, about ten pixels wide.
    icon: str


_CIRCLE = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"

# fmt: off
STATUS_SYMBOLS: Mapping[str, StatusSymbol] = MappingProxyType({
    "completed":      StatusSymbol("✓", "completed",      "m-5 0l3.5 4 6.5-8"),
    "skipped":        StatusSymbol("»", "skipped",        "m-5-4l4 4-4 4m5-8l4 4-4 4"),
    "failed":         StatusSymbol("✗", "failed",         "m-4-4l8 8m0-8l-8 8"),
    "canceled":      StatusSymbol("⊘", "canceled",      _CIRCLE + "m1 3l6-6"),
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
NO_STATUS = "bare"
DONE_STATUSES = frozenset({"completed", "skipped"})
#: Statuses, most important first. A box that contains several steps shows the first of these
#: statuses that one of its steps has.
_STATUS_PRECEDENCE = ("failed", "awaiting_input", "stalled", "in_progress")


def symbol_for(status: str) -> StatusSymbol:
    return STATUS_SYMBOLS.get(status, STATUS_SYMBOLS[UNKNOWN])


def aggregate_status(statuses: Sequence[str]) -> str:
    """Return the status that all steps share, or else the most important one.

    A mixture of completed and skipped steps is completed. If none of the statuses is in
    `_STATUS_PRECEDENCE`, the result is `in_progress`.

    >>> (
    ...     aggregate_status(["completed", "completed"]),
    ...     aggregate_status(["completed", "failed", "in_progress"]),
    ... )
    ('completed', 'failed')
    >>> aggregate_status(["completed", "pending"]), aggregate_status(["completed", "skipped"])
    ('in_progress', 'completed')
    """
    counts = Counter(statuses)
    if len(counts) == 1:
        return statuses[0]
    if counts.keys() <= DONE_STATUSES:
        return "completed"
    return next((status for status in _STATUS_PRECEDENCE if status in counts), "in_progress")


@dataclass(frozen=True, slots=True)
class Annotation:
    status: str
    note: str = ""


BRANCH_MARK = "◇"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    stage: str
    source: str
    #: Step to which the condition skips, or from which it repeats. None for other conditions.
    target: str | None = None
    is_loop: bool = False
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    steps: Mapping[tuple[str, str], Annotation] = field(default_factory=dict)
    stages: Mapping[str, Annotation] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    branches: tuple[Branch, ...] = ()
    default: Annotation = Annotation(NOT_STARTED)

    def step(self, stage: str, key: str) -> Annotation:
        return self.steps.get((stage, key), self.default)

    def stage(self, slug: str) -> Annotation:
        return self.stages.get(slug, self.default)


NO_ANNOTATIONS = Annotations(default=Annotation(NO_STATUS))


def annotations_from_report(
    report: Report,
    *,
    expected: Mapping[str, StageCounts] | None = None,
    captions: Mapping[str, str] | None = None,
) -> Annotations:
    counts, steps = expected or {}, dict[tuple[str, str], Annotation]()
    for slug, stage_counts in counts.items():
        steps.update(
            {
                (slug, key): Annotation(NOT_STARTED, stage_counts.jobs(key).jobs_text)
                for key in stage_counts.units
            }
        )
    for stage in report["stages"]:
        slug = stage["stageSlug"]
        for step in stage["steps"] or ():
            place, jobs = (slug, step["stepKey"]), step["jobs"]
            total = jobs["done"] + jobs["active"] + jobs["failed"]
            expected_note = steps[place].note if place in steps else ""
            note = f"{jobs['done']}/{total}" if total else expected_note
            steps[place] = Annotation(str(step["status"]), note)
    stages = {stage["stageSlug"]: _stage_mark(stage) for stage in report["stages"]}
    return Annotations(steps=steps, stages=stages, captions=captions or {})


def _stage_mark(stage: StageReport) -> Annotation:
    status = UNKNOWN if stage["status"] is None else str(stage["status"])
    progress = stage["progress"]
    if not progress or not progress["totalSteps"]:
        return Annotation(status)
    note = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
    if stage["documentsExpected"]:
        note += f", {stage['documentsAvailable']} of {stage['documentsExpected']} documents"
    return Annotation(status, note)
