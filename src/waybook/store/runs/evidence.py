"""Selects the documents of a stage that awaits feedback."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

MAX_DOCUMENTS = 8
BEGINNING_LENGTH = 600


class StageDocument(NamedTuple):
    run_id: str
    resource_id: str
    document_key: str
    step_key: str
    model: str
    lineage: str
    beginning: str
    total: int


SQL = load("runs/evidence", stage_documents=StageDocument)


def stage_documents_statement(run_id: str, stage: str) -> Statement:
    return SQL["stage_documents"](
        run_id=run_id, stage=stage, most=MAX_DOCUMENTS, longest=BEGINNING_LENGTH
    )
