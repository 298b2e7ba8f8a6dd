"""Short ids in replies, in place of the full ids of plans, steps, runs, jobs and reviews."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from waybook.app.request.short_ids import convert_part
from waybook.core.short_ids import IdKind
from waybook.store.driver.queries import is_id

#: Reply fields that contain an id, or a list of ids, of objects with short ids. Entries of such a
#: list that are not ids are left unchanged.
REPLY_KINDS: Final = {
    "planId": IdKind.PLAN,
    "stepId": IdKind.STEP,
    "copiedFromStep": IdKind.STEP,
    "stepIds": IdKind.STEP,
    "addedStepIds": IdKind.STEP,
    "skippedStepIds": IdKind.STEP,
    "targetStepId": IdKind.STEP,
    "dependsOn": IdKind.STEP,
    "steps": IdKind.STEP,
    "missing": IdKind.STEP,
    "unknown": IdKind.STEP,
    "repeated": IdKind.STEP,
    "runId": IdKind.RUN,
    "jobId": IdKind.JOB,
    "newJobId": IdKind.JOB,
    "reviewId": IdKind.REVIEW,
}
#: Reply fields that contain the URL of a page with ids in its path.
URL_FIELDS: Final = frozenset({"reviewUrl", "runUrl"})
#: Reply fields whose ids are never shortened: JSON that agents or workflows wrote, and the changes
#: of a dry run, which have the form of audit entries.
OPAQUE_FIELDS: Final = frozenset(
    {
        "content",
        "data",
        "definition",
        "diff",
        "input",
        "metadata",
        "resultSchema",
        "resultSummary",
        "schema",
        "stepExecutionReport",
    }
)
#: Fields whose text is or contains an id.
ID_FIELDS: Final = REPLY_KINDS.keys() | URL_FIELDS | {"part"}
#: Pattern for an id in the path of a page, preceded by the folder that shows the kind of the id.
_PAGE_ID = re.compile(r"/(plans|steps|runs)/([0-9a-f-]{36})\b")

#: Function that takes a kind and a full id, and returns the short id.
Shorten: TypeAlias = Callable[[IdKind, str], str]


def shorten_ids(body: Mapping[str, object], shorten: Shorten) -> dict[str, object]:
    """Return a reply with short ids; parts without ids are not copied."""
    return cast("dict[str, object]", _shortened(body, shorten))


def _shortened(value: object, shorten: Shorten) -> object:
    if isinstance(value, dict):
        changed = {}
        for name, inner in value.items():
            # Most fields are neither ids nor containers, so they are skipped without a function
            # call.
            if isinstance(inner, str):
                if name not in ID_FIELDS:
                    continue
            elif not isinstance(inner, dict | list):
                continue
            new = _field(name, inner, shorten)
            if new is not inner:
                changed[name] = new
        return {**value, **changed} if changed else value
    if isinstance(value, list):
        items = [
            _shortened(item, shorten) if isinstance(item, dict | list) else item for item in value
        ]
        return items if any(map(_differ, items, value)) else value
    return value


def _differ(new: object, old: object) -> bool:
    return new is not old


def _field(name: str, value: object, shorten: Shorten) -> object:
    kind = REPLY_KINDS.get(name)
    if isinstance(value, str):
        if kind is not None:
            return _id(value, kind, shorten)
        if name in URL_FIELDS:
            return _PAGE_ID.sub(lambda found: _path(found, shorten), value)
        return convert_part(value, lambda k, t: _id(t, k, shorten)) if name == "part" else value
    if name in OPAQUE_FIELDS:
        return value
    if kind is not None and isinstance(value, list) and value and isinstance(value[0], str):
        return [_id(item, kind, shorten) if isinstance(item, str) else item for item in value]
    return _shortened(value, shorten)


def _id(text: str, kind: IdKind, shorten: Shorten) -> str:
    return shorten(kind, text) if is_id(text) else text


def _path(found: re.Match[str], shorten: Shorten) -> str:
    folder, text = found.groups()
    return f"/{folder}/{_id(text, IdKind(folder.removesuffix('s')), shorten)}"
