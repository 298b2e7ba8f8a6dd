"""Cache of the newest documents of a run, which are the inputs of later jobs."""

from datetime import UTC, datetime

from waybook.dag.expansion.inputs import Document, DocumentSlot
from waybook.dag.expansion.units import ProducedDocument
from waybook.run.model import NewDocument
from waybook.store.runs.inputs import MAX_CACHED_CHARACTERS, DocumentCache, DocumentInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST, SECOND = DocumentSlot("s", "d", "first"), DocumentSlot("s", "d", "second")
ANY, OTHER = DocumentSlot("s", "d"), DocumentSlot("s", "other", "first")


def make_info(lineage: str, content: str = "text") -> DocumentInfo:
    document = Document(
        id=lineage, stage="s", step_key="k", document_key="d", model="m", lineage=lineage
    )
    return DocumentInfo(document, len(content), "ann", NOW, content)


def make_document(lineage: str) -> NewDocument:
    return NewDocument(
        id="new",
        stage="s",
        step_key="k",
        job_id="j",
        document_key="d",
        origin=ProducedDocument("m", lineage),
        version=2,
        content="new",
        content_hash="",
    )


def fill(cache: DocumentCache, *slots: DocumentSlot, documents: list[DocumentInfo]) -> None:
    cache.put(slots, cache.writes_of(slots), documents)


def test_document_cache_contains_documents_that_were_read() -> None:
    cache, first, second = DocumentCache(), make_info("first"), make_info("second")
    fill(cache, FIRST, OTHER, documents=[first, second])
    assert (cache.get(FIRST), cache.get(OTHER)) == ((first,), ())
    assert (cache.get(SECOND), cache.get(ANY)) == (None, None)
    fill(cache, ANY, documents=[first, second])
    assert cache.get(ANY) == (first, second)


def test_writing_a_document_removes_cached_versions_of_that_document() -> None:
    cache, documents = DocumentCache(), [make_info("first"), make_info("second")]
    fill(cache, FIRST, SECOND, ANY, OTHER, documents=documents)
    cache.discard([make_document("first")])
    assert (cache.get(FIRST), cache.get(ANY)) == (None, None)
    assert (cache.get(SECOND), cache.get(OTHER)) == ((documents[1],), ())


def test_document_that_changed_after_the_read_is_not_cached() -> None:
    cache = DocumentCache()
    writes = cache.writes_of([FIRST, OTHER])
    cache.discard([make_document("first")])
    cache.put([FIRST, OTHER], writes, [make_info("first")])
    assert (cache.get(FIRST), cache.get(OTHER)) == (None, ())


def test_document_cache_is_emptied_if_the_texts_are_too_long() -> None:
    cache = DocumentCache()
    fill(cache, FIRST, documents=[make_info("first")])
    fill(cache, SECOND, documents=[make_info("second", "x" * MAX_CACHED_CHARACTERS)])
    assert (cache.get(FIRST), cache.get(SECOND)) == (None, None)
