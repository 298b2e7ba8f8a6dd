"""The state of work as people see it: one word, mark and tone for every stored status.

Pages, terminal, charts, notifications and summaries take their words from here.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Shown(StrEnum):
    """A state that people see. The value is the `data-status` of elements that show it."""

    #: Nothing can go on until a person decides or gives feedback.
    NEEDS_YOU = "awaiting_input"
    #: An agent works on it.
    RUNNING = "in_progress"
    #: An agent holds it, but has been silent for longer than the setting allows.
    STALLED = "stalled"
    FAILED = "failed"
    #: Ended by a person or agent, or not finished when its plan or run ended.
    CANCELED = "canceled"
    DONE = "completed"
    SKIPPED = "skipped"
    #: An agent can claim it.
    READY = "ready"
    #: It waits for other work.
    BLOCKED = "blocked"
    #: Not begun; whether it is ready is not known.
    TODO = "pending"
    UNKNOWN = "unknown"


class Look(NamedTuple):
    word: str
    #: Attribute `data-s` of an element: it selects the color and the mark.
    tone: str
    symbol: str
    #: SVG path of the icon, about ten pixels wide. Every icon has a distinct shape, so that no
    #: state is shown by color alone.
    icon: str


_CIRCLE: Final = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"

# fmt: off
LOOKS: Final[Mapping[Shown, Look]] = MappingProxyType({
    Shown.DONE:      Look("Done",      "done", "✓", "m-5 0l3.5 4 6.5-8"),
    Shown.SKIPPED:   Look("Skipped",   "skip", "»", "m-5-4l4 4-4 4m5-8l4 4-4 4"),
    Shown.FAILED:    Look("Failed",    "fail", "✗", "m-4-4l8 8m0-8l-8 8"),
    Shown.CANCELED:  Look("Canceled",  "skip", "⊘", _CIRCLE + "m1 3l6-6"),
    Shown.NEEDS_YOU: Look("Needs you", "ask",  "!", "m0-5v6m0 4v.1"),
    Shown.STALLED:   Look("Stalled",   "warn", "▲", "m0-5l5.5 10h-11z"),
    Shown.RUNNING:   Look("Running",   "run",  "◐", "m-3-5l8 5-8 5z"),
    Shown.READY:     Look("Ready",     "todo", "·", _CIRCLE),
    Shown.BLOCKED:   Look("Blocked",   "todo", "·", _CIRCLE),
    Shown.TODO:      Look("To do",     "todo", "·", _CIRCLE),
    Shown.UNKNOWN:   Look("Unknown",   "todo", "?", "m-3-3a3 3 0 1 1 3 4v1m0 3v.1"),
})
# fmt: on
#: Drawings of workflows show no state.
NO_STATUS: Final = "bare"
_NO_LOOK: Final = Look("", "todo", "", "")

TO_DO: Final = frozenset({Shown.READY, Shown.BLOCKED, Shown.TODO})
FINISHED: Final = frozenset({Shown.DONE, Shown.SKIPPED})
ENDED: Final = frozenset({*FINISHED, Shown.FAILED, Shown.CANCELED})

#: Stored statuses of plans, steps, runs, stages and jobs, unless they have the name of a state.
_STATES: Final = {
    "planning": Shown.TODO,
    "not_started": Shown.TODO,
    "executing": Shown.RUNNING,
    "processing": Shown.RUNNING,
    "awaiting_review": Shown.NEEDS_YOU,
    "awaiting_feedback": Shown.NEEDS_YOU,
    "retrying": Shown.TODO,
    "waiting": Shown.TODO,
    "retry_loop_failed": Shown.FAILED,
    "superseded": Shown.SKIPPED,
    **{str(state): state for state in Shown},
}


def shown(status: str | None) -> Shown:
    """Return the state for a status about which nothing else is known.

    >>> shown("executing"), shown("completed")
    (<Shown.RUNNING: 'in_progress'>, <Shown.DONE: 'completed'>)
    """
    return _STATES.get(status or "", Shown.UNKNOWN)


def look_of(status: str) -> Look:
    return _NO_LOOK if status == NO_STATUS else LOOKS[shown(status)]


def word_of(status: str) -> str:
    return look_of(status).word


def tone_of(status: str) -> str:
    return look_of(status).tone


def shown_item(
    status: str,
    *,
    is_held: bool = True,
    is_silent: bool = False,
    is_ready: bool | None = None,
    is_over: bool = False,
) -> Shown:
    """Return the state of a step of a plan, or of a job.

    Work that was begun but has no holder can be claimed, so it is ready: a person asked for
    changes, or the holder gave up. `is_over` is set if the plan or run has ended.

    >>> shown_item("in_progress", is_silent=True), shown_item("in_progress", is_held=False)
    (<Shown.STALLED: 'stalled'>, <Shown.READY: 'ready'>)
    """
    state = shown(status)
    if state in ENDED:
        return state
    if is_over:
        return Shown.CANCELED
    if state is Shown.RUNNING and not is_held:
        return Shown.READY
    if state is Shown.RUNNING and is_silent:
        return Shown.STALLED
    if state is Shown.TODO and is_ready is not None:
        return Shown.READY if is_ready else Shown.BLOCKED
    return state


def shown_plan(state: str, *, is_held: bool, has_steps: bool = True) -> Shown:
    """Return the state of a plan: `state` is its status, or `canceled`.

    An open plan is running or stalled only while an agent holds one of its steps. A failed step
    does not change the state, because the steps after it can still be claimed.

    >>> shown_plan("executing", is_held=False), shown_plan("stalled", is_held=True)
    (<Shown.READY: 'ready'>, <Shown.STALLED: 'stalled'>)
    """
    plain = shown(state)
    if plain in ENDED or plain is Shown.NEEDS_YOU or is_held:
        return plain
    return Shown.READY if has_steps else Shown.TODO


def shown_group(status: str | None, *, goes_on: bool, is_over: bool = False) -> Shown:
    """Return the state of a run, of a stage, or of a step of a run.

    While other jobs of it go on, one with failed jobs is running.

    >>> shown_group("failed", goes_on=True), shown_group("in_progress", goes_on=True, is_over=True)
    (<Shown.RUNNING: 'in_progress'>, <Shown.CANCELED: 'canceled'>)
    """
    state = shown(status)
    if state in FINISHED or state is Shown.CANCELED:
        return state
    if is_over:
        return Shown.CANCELED
    return Shown.RUNNING if state is Shown.FAILED and goes_on else state
