"""Reading documents: what there is of them, and their texts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from waybook.dag.inputs import Document
from waybook.store.sql import AsJson, Ids, Statement, load

SQL = load("documents")


class DocumentInfo(NamedTuple):
    """A document without its text: how long that is, who handed it in, and when."""

    document: Document
    length: int
    by: str | None
    at: datetime


def documents_statement(run_id: str, keys: Iterable[str]) -> Statement:
    """The latest versions of the documents with these keys."""
    return SQL["documents_of"](run_id=run_id, keys=AsJson([*keys]))


def contents_statement(ids: Iterable[str], most: int) -> Statement:
    """The beginnings of these documents' texts."""
    return SQL["contents"](ids=Ids(ids), most=most)


def content_statement(run_id: str, document_id: str, start: int, most: int) -> Statement:
    """A piece of one document's text."""
    return SQL["content"](run_id=run_id, document_id=document_id, start=start, most=most)


def document_job_statement(run_id: str, document_id: str) -> Statement:
    """Which job made the latest version of a document."""
    return SQL["document_job"](run_id=run_id, document_id=document_id)


def run_of_document_statement(document_id: str) -> Statement:
    """Find the run a document belongs to."""
    return SQL["run_of_document"](document_id=document_id)


def available_statement(run_id: str) -> Statement:
    """What people can read of a run."""
    return SQL["available"](run_id=run_id)


def readable_statement(run_id: str) -> Statement:
    """What people can read of a run, and all there is to know of it but its text."""
    return SQL["readable"](run_id=run_id)


def rendered_statement(resource_id: str) -> Statement:
    """One rendered document."""
    return SQL["rendered"](resource_id=resource_id)


def read_documents(rows: Iterable[Sequence[Any]]) -> dict[str, DocumentInfo]:
    """The documents by their ids."""
    return {
        row[0]: DocumentInfo(
            Document(
                id=row[0],
                stage=row[1],
                step_key=row[2],
                document_key=row[3],
                model=row[4],
                lineage=row[5],
                reviewer=row[6],
            ),
            *row[7:],
        )
        for row in rows
    }
