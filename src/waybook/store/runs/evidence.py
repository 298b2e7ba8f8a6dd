"""Query for the documents of a stage that awaits feedback."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load

#: Maximum number of documents that are listed for a stage.
MAX_DOCUMENTS = 8
#: Number of characters of a document's Markdown that are read for its first lines.
BEGINNING_LENGTH = 600


class StageDocument(NamedTuple):
    """Rendered document of a stage, with the beginning of its Markdown."""

    run_id: str
    resource_id: str
    document_key: str
    step_key: str
    model: str
    lineage: str
    beginning: str
    #: Total number of documents of the stage, including those that are not listed.
    total: int


SQL = load("runs/evidence", stage_documents=StageDocument)


def stage_documents_statement(run_id: str, stage: str) -> Statement:
    """Select the first documents of a stage of a run."""
    return SQL["stage_documents"](
        run_id=run_id, stage=stage, most=MAX_DOCUMENTS, longest=BEGINNING_LENGTH
    )
