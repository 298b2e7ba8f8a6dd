"""Status annotations of a diagram."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from waybook.core.shown import FINISHED, NO_STATUS, TO_DO, Shown
from waybook.dag.expansion.inputs import StageCounts
from waybook.dag.progress.report import Report, StageReport, shown_stage, shown_step

#: States, most important first. A box that contains several steps shows the first of these states
#: that one of its steps has.
_PRECEDENCE = (Shown.FAILED, Shown.NEEDS_YOU, Shown.STALLED, Shown.RUNNING, Shown.CANCELED)


def aggregate_status(statuses: Sequence[str]) -> str:
    """Return the state that all steps share, or else the most important one.

    A mixture of finished steps is done, and of steps to do is to do. If none of the states is in
    `_PRECEDENCE`, the result is `in_progress`.

    >>> print(aggregate_status(["completed", "failed", "in_progress"]))
    failed
    >>> print(aggregate_status(["completed", "skipped"]))
    completed
    >>> print(aggregate_status(["completed", "pending"]))
    in_progress
    """
    counts = Counter(statuses)
    if len(counts) == 1:
        return statuses[0]
    if counts.keys() <= FINISHED:
        return Shown.DONE
    if counts.keys() <= TO_DO:
        return Shown.READY if Shown.READY in counts else Shown.TODO
    return next((state for state in _PRECEDENCE if state in counts), Shown.RUNNING)


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
    default: Annotation = Annotation(Shown.TODO)

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
    is_over: bool = False,
    awaiting: str | None = None,
) -> Annotations:
    """Return the states of stages and steps. `awaiting` is the stage that awaits feedback."""
    counts, steps = expected or {}, dict[tuple[str, str], Annotation]()
    for slug, stage_counts in counts.items():
        steps.update(
            {
                (slug, key): Annotation(Shown.TODO, stage_counts.jobs(key).jobs_text)
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
            steps[place] = Annotation(shown_step(step, is_over=is_over), note)
    stages = {
        stage["stageSlug"]: _stage_mark(
            stage, shown_stage(stage, is_over=is_over, awaits=stage["stageSlug"] == awaiting)
        )
        for stage in report["stages"]
    }
    return Annotations(steps=steps, stages=stages, captions=captions or {})


def _stage_mark(stage: StageReport, status: Shown) -> Annotation:
    progress = stage["progress"]
    if not progress or not progress["totalSteps"]:
        return Annotation(status)
    note = f"{progress['completedSteps']} of {progress['totalSteps']} steps"
    if stage["documentsExpected"]:
        note += f", {stage['documentsAvailable']} of {stage['documentsExpected']} documents"
    return Annotation(status, note)
