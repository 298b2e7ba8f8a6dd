"""What is shown upon a map of where things stand: the overlay, as a drawing needs it.

It comes from a report, of a run or of anybody's snapshot, or from a plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waybook.dag.counts import StageCounts
from waybook.dag.drawing.looks import NO_STATUS, NOT_STARTED, UNKNOWN
from waybook.dag.report import Report, StageReport, StepReport


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
