"""Replaces the full ids in replies by short ids."""

import re
from collections.abc import Callable
from operator import is_not
from typing import Final, TypeAlias

from waybook.app.request.argument_ids import convert_part
from waybook.core.short_ids import IdKind
from waybook.store.driver.queries import is_id

_REPLY_KINDS: Final = {
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
_URL_FIELDS: Final = frozenset({"reviewUrl", "runUrl"})
_OPAQUE_FIELDS: Final = frozenset(
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
_CONTAINERS: Final = frozenset({dict, list})
_TEXT_FIELDS: Final = _URL_FIELDS | {"part"}
_PAGE_ID = re.compile(r"/(plans|steps|runs)/([0-9a-f-]{36})\b")

_Shorten: TypeAlias = Callable[[IdKind, str], str]


def shorten_ids(body: dict[str, object], shorten: _Shorten) -> dict[str, object]:
    """Return a reply with short ids. Parts without ids are not copied."""
    changed: dict[str, object] = {}
    for name, inner in body.items():
        # Most texts contain no ids, so they are skipped early.
        if type(inner) is str:
            new: object = inner
            if name in _REPLY_KINDS:
                new = _id(inner, _REPLY_KINDS[name], shorten)
            elif name in _TEXT_FIELDS:
                new = _text(name, inner, shorten)
        elif type(inner) in _CONTAINERS and inner and name not in _OPAQUE_FIELDS:
            new = _container(inner, _REPLY_KINDS.get(name), shorten)
        else:
            continue
        if new is not inner:
            changed[name] = new
    return {**body, **changed} if changed else body


def _container(value: object, kind: IdKind | None, shorten: _Shorten) -> object:
    """Return a dictionary or list with short ids."""
    if isinstance(value, dict):
        return shorten_ids(value, shorten)
    if not isinstance(value, list):
        return value
    if kind is not None and value and isinstance(value[0], str):
        return [_id(item, kind, shorten) if isinstance(item, str) else item for item in value]
    items = [
        _container(item, None, shorten) if type(item) in _CONTAINERS else item for item in value
    ]
    return items if any(map(is_not, items, value)) else value


def _text(name: str, text: str, shorten: _Shorten) -> str:
    if name in _URL_FIELDS:
        return _PAGE_ID.sub(lambda found: _path(found, shorten), text)
    return convert_part(text, lambda k, t: _id(t, k, shorten))


def _id(text: str, kind: IdKind, shorten: _Shorten) -> str:
    return shorten(kind, text) if is_id(text) else text


def _path(found: re.Match[str], shorten: _Shorten) -> str:
    folder, text = found.groups()
    return f"/{folder}/{_id(text, IdKind(folder.removesuffix('s')), shorten)}"
