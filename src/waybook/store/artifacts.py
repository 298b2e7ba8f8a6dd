"""Artifacts and sources: what is there under a name, and one of them whole."""

from collections.abc import Iterable, Sequence
from typing import Any

from waybook.plan.research import ExistingResearch
from waybook.store.sql import Ids, Statement, load

SQL = load("artifacts")


def existing_in_plan_statements(
    plan_id: str, kind: str, title: str, source_ids: Iterable[str]
) -> list[Statement]:
    """Ask what a plan has under this name, and which of these sources it has met."""
    return [
        SQL["latest_in_plan"](plan_id=plan_id, kind=kind, title=title),
        SQL["known_sources"](plan_id=plan_id, ids=Ids(source_ids)),
    ]


def existing_standalone_statements(kind: str, title: str) -> list[Statement]:
    """Wait for our turn, then ask what there is under this name without a plan."""
    return [
        SQL["lock_name"](kind=kind, title=title),
        SQL["latest_standalone"](kind=kind, title=title),
    ]


def read_existing(
    latest: Sequence[tuple[Any, ...]], sources: Sequence[tuple[Any, ...]] = ()
) -> ExistingResearch:
    """What these statements found."""
    known = frozenset(row[0] for row in sources)
    if not latest:
        return ExistingResearch(sources=known)
    artifact_id, version, content_hash = latest[0]
    return ExistingResearch(artifact_id, version, content_hash, known)


def rows_statement(artifact_id: str) -> Statement:
    """Everything the audit of an artifact without a plan accounts for."""
    return SQL["stored_standalone_rows"](artifact_id=artifact_id)


def artifact_statement(artifact_id: str) -> Statement:
    """One artifact, with its content."""
    return SQL["artifact"](artifact_id=artifact_id)


def source_statement(source_id: str, most: int) -> Statement:
    """One source, with the newest artifacts that came from it."""
    return SQL["source"](source_id=source_id, most=most)
