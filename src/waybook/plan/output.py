"""Outputs: the deliverable of a plan, in versions.

It is written when the plan is complete, so it is the one thing a completed plan still takes: the
plan and its steps stay as they were, and the audit goes on.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from waybook.errors import InvalidInput, TooLarge
from waybook.plan.decision import Decision
from waybook.plan.draft import Draft
from waybook.plan.limits import MAX_OUTPUTS
from waybook.plan.media_types import is_json
from waybook.plan.model import Plan
from waybook.plan.refusals import require_open
from waybook.plan.sessions import register_session
from waybook.plan.states import PlanStatus
from waybook.record.changes import Entity, Event, as_json
from waybook.record.moment import DecisionContext
from waybook.record.texts import text_hash

#: The kind of artifact an output is.
OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutput:
    """A deliverable as somebody hands it in; its media type is that of a text."""

    media_type: str
    title: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A deliverable that is kept, without its text."""

    id: str
    title: str
    media_type: str
    version: int
    content_hash: str
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """What became of an output: kept as a new version, or there already."""

    output: Output
    is_new: bool


def store_output(
    plan: Plan, new: NewOutput, there: Sequence[Output], context: DecisionContext
) -> Decision[StoredOutput]:
    """Keep a deliverable: the next version of its title, or nothing if it is the same as before.

    Raises:
        PlanTerminal: the plan failed.
        InvalidInput: it says that it is JSON, and is not.
        TooLarge: the plan has as many outputs as it may have.
    """
    if plan.status is not PlanStatus.COMPLETED:
        require_open(plan)
    _refuse_broken(new)
    draft = Draft(plan, context)
    register_session(draft)
    before = latest_version(there, title=new.title, media_type=new.media_type)
    if before is not None and before.content_hash == text_hash(new.content):
        return draft.decide(StoredOutput(before, is_new=False))
    _refuse_more(there)
    version = 1 + max((one.version for one in there if one.title == new.title), default=0)
    made = _made(new, version, context)
    draft.store_text(
        Entity.ARTIFACT,
        made.id,
        new.content,
        step_id=None,
        kind=OUTPUT,
        title=made.title,
        superseded=False,
        media_type=made.media_type,
        version=version,
        created_at=as_json(made.created_at),
        created_by=made.created_by,
    )
    draft.record(
        Event.PLAN_MODIFIED,
        action="output_stored",
        artifactId=made.id,
        title=made.title,
        mediaType=made.media_type,
        version=version,
    )
    return draft.decide(StoredOutput(made, is_new=True))


def _made(new: NewOutput, version: int, context: DecisionContext) -> Output:
    return Output(
        id=context.new_id(),
        title=new.title,
        media_type=new.media_type,
        version=version,
        content_hash=text_hash(new.content),
        created_at=context.now,
        created_by=context.actor.user,
    )


def latest_version(outputs: Iterable[Output], *, title: str, media_type: str) -> Output | None:
    """The last version of this title in this form, if there is one."""
    same = (one for one in outputs if (one.title, one.media_type) == (title, media_type))
    return max(same, key=lambda one: one.version, default=None)


def latest(outputs: Iterable[Output]) -> list[Output]:
    """Of each title in each form the last version, newest first."""
    last: dict[tuple[str, str], Output] = {}
    for one in sorted(outputs, key=lambda one: one.version):
        last[one.title, one.media_type] = one
    return sorted(last.values(), key=lambda one: (one.created_at, one.id), reverse=True)


def is_missing(outputs: Iterable[Output], media_type: str | None) -> bool:
    """Whether a deliverable of the type that was asked for is still to be written."""
    return media_type is not None and all(one.media_type != media_type for one in outputs)


def _refuse_broken(new: NewOutput) -> None:
    if is_json(new.media_type):
        try:
            json.loads(new.content, parse_constant=_no_number)
        except RecursionError:
            raise InvalidInput("content is nested too deeply", argument="content") from None
        except ValueError as error:
            raise InvalidInput(
                f"mediaType says {new.media_type}, but content is not JSON: {error}",
                argument="content",
            ) from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number in JSON")


def _refuse_more(there: Sequence[Output]) -> None:
    if len(there) >= MAX_OUTPUTS:
        raise TooLarge(
            f"this plan has {len(there)} outputs, versions counted; at most "
            f"{MAX_OUTPUTS} are kept with a plan",
            limit=MAX_OUTPUTS,
        )
