"""The actions that people can take on their work: when each is offered, its texts and its call.

Pages, palette, terminal and the JSON views take them from here.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from waybook.core.shown import ENDED, Shown
from waybook.json_values import Body


class Kind(StrEnum):
    PLAN = "plan"
    STEP = "step"
    RUN = "run"
    JOB = "job"
    REVIEW = "review"
    AGENT = "agent"
    WORKFLOW = "workflow"


class Facts(NamedTuple):
    """Values of a plan, run or other thing that decide which actions it offers."""

    kind: Kind
    state: Shown = Shown.UNKNOWN
    #: State of the plan or run that contains it.
    within: Shown = Shown.UNKNOWN
    #: Numbers of its steps, of its failed steps and of its silent steps.
    steps: int = 1
    failed: int = 0
    silent: int = 0


Rule = Callable[[Facts], bool]
Arguments = dict[str, object]


class Action(NamedTuple):
    name: str
    label: str
    is_offered: Rule
    #: Completes "this plan …" when the action is not offered.
    refusal: str
    icon: str = "right"
    key: str = ""
    #: The tool, and its modification or decision. Without a tool, the action is only on pages.
    tool: str = ""
    does: str = ""
    #: Line in the help of the terminal, which has no such verb without it.
    help: str = ""
    #: What to say before it is done, because it cannot be undone.
    confirmation: str = ""
    #: Address of its page or form, after the address of the thing.
    page: str = ""

    def call(self, work_id: str, *steps: str, **values: object) -> tuple[str, Arguments]:
        """Return the tool call that acts on a plan or run, or on steps of a plan."""
        if self.tool == "modify_plan":
            change = {"action": self.does, **values}
            changes = [{**change, "stepId": step} for step in steps] or [change]
            return self.tool, {"planId": work_id, "modifications": changes}
        if self.tool == "comment":
            return self.tool, {"subjectId": (*steps, work_id)[0], **values}
        decided = {"decision": self.does} if self.does else {}
        work = "runId" if self.tool in _OF_RUNS else "planId"
        return self.tool, {work: work_id, **decided, **values}

    def view(self) -> Body:
        confirmed = {"confirmation": self.confirmation} if self.confirmation else {}
        return {"name": self.name, "label": self.label, "tool": self.tool or None, **confirmed}


_OF_RUNS: Final = frozenset({"retry_failed", "submit_stage_feedback", "copy_run", "cancel_run"})
_ENDED_RUN: Final = frozenset({Shown.DONE, Shown.CANCELED})
_HAS_ENDED: Final = "has ended"


def _can_change(plan: Shown) -> bool:
    """Return whether a plan in this state can be changed: not while a person decides."""
    return plan not in ENDED and plan is not Shown.NEEDS_YOU


def _is_open(facts: Facts) -> bool:
    return facts.state not in (_ENDED_RUN if facts.kind is Kind.RUN else ENDED)


def _needs_you(facts: Facts) -> bool:
    return facts.state is Shown.NEEDS_YOU


def _decision(name: str, label: str, line: str, **more: str) -> Action:
    return Action(
        name, label, _needs_you, "has no open review", page="#review",
        tool="submit_user_decision", does=name, help=line, **more,
    )  # fmt: skip


def _ending(kind: Kind, end: str, tool: str, does: str = "") -> Action:
    confirmation = (
        f"The {kind} ends{end}. Agents get no more work from it, and results of work in progress "
        "are not accepted. Nothing is deleted. This cannot be undone."
    )
    return Action(
        "cancel", f"Cancel {kind}…", _is_open, _HAS_ENDED, "x", "x", tool, does,
        f"Cancel a {kind}.", confirmation, "/cancel",
    )  # fmt: skip


def _comment(page: str, line: str = "") -> Action:
    return Action(
        "comment", "Comment", lambda _: True, "", "talk", "w", "comment", help=line, page=page
    )


_DECISIONS: Final = (
    _decision("approve", "Approve", "Accept the result of a step.", key="a"),
    _decision("modify", "Request changes", "Request changes.", key="m"),
    _decision("skip", "Skip step", "Skip the step."),
    _decision(
        "reject", "Reject…", "Reject the step and fail the plan.", icon="x",
        confirmation="The step and the whole plan will fail. "
        "To request changes, send the step back instead.",
    ),
)  # fmt: skip

# fmt: off
ACTIONS: Final[Mapping[Kind, tuple[Action, ...]]] = {
    Kind.REVIEW: _DECISIONS,
    Kind.PLAN: (
        *_DECISIONS,
        Action("retry", "Retry failed steps",
               lambda f: f.failed > 0 and _can_change(f.state), "has no failed step to retry",
               "again", "r", "modify_plan", "retry_step", "Retry the failed steps.",
               page="#plan-trouble"),
        Action("reassign", "Reassign",
               lambda f: f.silent > 0 and _can_change(f.state), "has no stalled step",
               "again", "r", "modify_plan", "retry_step", "Take steps back from silent agents.",
               page="#plan-trouble"),
        Action("edit", "Edit", lambda f: _can_change(f.state), "cannot be changed now",
               "plan", "e", "modify_plan", "set_budget", page="/edit"),
        Action("share", "Share", lambda _: True, "", "link", "s",
               help="Create a link to a snapshot of a plan.", page="/share"),
        Action("copy", "Copy", lambda f: f.steps > 0, "has no steps to copy", "copy", "c",
               "copy_plan", help="Copy a plan, to continue or redo it.", page="/copy"),
        _comment("#thread", "Comment on a plan or a step."),
        _ending(Kind.PLAN, " as failed", "modify_plan", "cancel_plan"),
    ),
    Kind.STEP: (
        Action("retry", "Retry", lambda f: f.state is Shown.FAILED and _can_change(f.within),
               "has not failed, or its plan cannot be changed now", "again", "r",
               "modify_plan", "retry_step", page="#do-retry_step"),
        Action("reassign", "Reassign",
               lambda f: f.state in {Shown.RUNNING, Shown.STALLED} and _can_change(f.within),
               "has no holder, or its plan cannot be changed now", "again", "r",
               "modify_plan", "retry_step", page="#do-retry_step"),
        Action("edit", "Change", lambda f: _can_change(f.within),
               "belongs to a plan that cannot be changed now", "plan", "e",
               "modify_plan", "update_step_instructions", page="#change"),
        Action("copy", "Copy from here", lambda _: True, "", "copy", "c", "copy_plan"),
        _comment("#comments"),
    ),
    Kind.RUN: (
        Action("feedback", "Give feedback", _needs_you, "does not wait for feedback", "right", "m",
               "submit_stage_feedback", "",
               "Give feedback on a stage and start the next.", page="#run-band"),
        Action("retry", "Retry failed jobs", lambda f: f.failed > 0 and _is_open(f),
               "has no failed jobs", "again", "r", "retry_failed", help="Retry the failed jobs.",
               page="#run-band"),
        Action("copy", "Copy", lambda _: True, "", "copy", "c", "copy_run",
               help="Copy a run, to repeat it from a stage on.", page="/copy"),
        _comment("#thread", "Comment on a run or a job."),
        _ending(Kind.RUN, "", "cancel_run"),
    ),
    Kind.JOB: (
        Action("retry", "Retry failed jobs of this step",
               lambda f: f.state is Shown.FAILED and f.within is not Shown.CANCELED,
               "has not failed, or its run is canceled", "again", "r", "retry_failed"),
        _comment("#comments"),
    ),
    Kind.AGENT: (
        Action("reassign", "Reassign", lambda f: f.silent > 0, "is not silent, or holds no step",
               "again", "r", "modify_plan", "retry_step"),
    ),
    Kind.WORKFLOW: (
        Action("start", "Start a run", lambda _: True, "", "run", "s", "start_run",
               help="Start a run of a workflow."),
    ),
}
# fmt: on


def action(kind: Kind | str, name: str) -> Action:
    return next(item for item in ACTIONS[Kind(kind)] if item.name == name)


def offered(facts: Facts) -> Mapping[str, Action]:
    """Return the actions that a thing offers, by name.

    >>> [*offered(Facts(Kind.RUN, Shown.FAILED, failed=1))]
    ['retry', 'copy', 'comment', 'cancel']
    """
    return {item.name: item for item in ACTIONS[facts.kind] if item.is_offered(facts)}
