"""Queries for the documents that are inputs of a job."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from waybook.dag.expansion.inputs import Document, DocumentSlot
from waybook.json_values import Body, Json
from waybook.store.driver.queries import AsJson, Statement, load
from waybook.store.runs.rows import DocumentRow

SQL = load("runs/inputs", documents_of=DocumentRow, documents_of_lineage=DocumentRow)


class DocumentInfo(NamedTuple):
    """Document with the length, author and time of its text, and the text if it was read."""

    document: Document
    length: int
    by: str | None
    at: datetime
    content: str | None = None


def documents_statements(run_id: str, slots: Iterable[DocumentSlot], most: int) -> list[Statement]:
    """Select the latest versions of the documents in these slots; models are not compared.

    The texts are selected if they have at most `most` characters in total.
    """
    narrow, wide = list[Json](), list[Json]()
    for slot in dict.fromkeys(slots):
        place: Body = {"stage": slot.stage, "document_key": slot.document_key}
        if slot.lineage is None:
            wide.append(place)
        else:
            narrow.append({**place, "lineage": slot.lineage})
    statements = []
    if narrow:
        slots_json = AsJson(narrow)
        statements.append(SQL["documents_of_lineage"](run_id=run_id, slots=slots_json, most=most))
    if wide:
        statements.append(SQL["documents_of"](run_id=run_id, slots=AsJson(wide), most=most))
    return statements


def read_documents(rows: Iterable[DocumentRow]) -> dict[str, DocumentInfo]:
    """Convert the selected rows to documents, keyed by id."""
    return {
        row.id: DocumentInfo(
            Document(
                id=row.id,
                stage=row.stage,
                step_key=row.step_key,
                document_key=row.document_key,
                model=row.model,
                lineage=row.lineage,
                reviewer=row.reviewer,
            ),
            row.length,
            row.by,
            row.at,
            row.content,
        )
        for row in rows
    }
