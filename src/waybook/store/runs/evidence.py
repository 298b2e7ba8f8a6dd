"""Query for the documents of a stage that awaits feedback."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of documents listed for a stage.
MAX_DOCUMENTS = 8
#: Number of characters of a document's Markdown from which its first lines are taken.
BEGINNING_LENGTH = 600


class StageDocument(NamedTuple):
    run_id: str
    resource_id: str
    document_key: str
    step_key: str
    model: str
    lineage: str
    beginning: str
    #: Total number of documents of the stage, listed or not.
    total: int


SQL = load("runs/evidence", stage_documents=StageDocument)


def stage_documents_statement(run_id: str, stage: str) -> Statement:
    return SQL["stage_documents"](
        run_id=run_id, stage=stage, most=MAX_DOCUMENTS, longest=BEGINNING_LENGTH
    )
