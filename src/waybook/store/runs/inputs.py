"""Selects and caches the documents that are inputs of a job."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from waybook.dag.expansion.inputs import Document, DocumentSlot
from waybook.json_values import Body, Json
from waybook.run.model import NewDocument
from waybook.store.driver.queries import AsJson, Statement, load

_MAX_CACHED_DOCUMENTS = 2_000
MAX_CACHED_CHARACTERS = 131_072


class DocumentInfo(NamedTuple):
    """Latest version of a document, without its text if the text exceeds the limit."""

    document: Document
    length: int
    by: str | None
    at: datetime
    content: str | None = None


SQL = load("runs/inputs", documents_of=DocumentInfo, documents_of_lineage=DocumentInfo)


def documents_statements(
    run_id: str, slots: Iterable[DocumentSlot], most: int, as_of: datetime | None = None
) -> list[Statement]:
    """Select the latest documents for these slots (stage, document key, lineage), of any model.

    `as_of` selects the versions that were the latest at that time. The texts are selected in the
    order of the slots, up to `most` characters in total.
    """
    narrow, wide = list[Json](), list[Json]()
    for number, slot in enumerate(dict.fromkeys(slots)):
        place: Body = {"number": number, "stage": slot.stage, "document_key": slot.document_key}
        if slot.lineage is None:
            wide.append(place)
        else:
            narrow.append({**place, "lineage": slot.lineage})
    statements = []
    if narrow:
        query, slots_json = SQL["documents_of_lineage"], AsJson(narrow)
        statements.append(query(run_id=run_id, slots=slots_json, most=most, as_of=as_of))
    if wide:
        query, slots_json = SQL["documents_of"], AsJson(wide)
        statements.append(query(run_id=run_id, slots=slots_json, most=most, as_of=as_of))
    return statements


def read_documents(rows: Iterable[DocumentInfo]) -> dict[str, DocumentInfo]:
    return {row.document.id: row for row in rows}


def documents_in(slot: DocumentSlot, documents: Iterable[DocumentInfo]) -> tuple[DocumentInfo, ...]:
    return tuple(
        info
        for info in documents
        if info.document.stage == slot.stage
        and info.document.document_key == slot.document_key
        and slot.lineage in {None, info.document.lineage}
    )


class DocumentCache:
    """Caches the latest documents of a run, which are inputs of jobs."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], dict[str | None, tuple[DocumentInfo, ...]]] = {}
        self._writes: dict[tuple[str, str], int] = {}
        self._documents = self._characters = 0
        #: Number of new versions of existing documents. Only such versions change the inputs of
        #: jobs that no agent has claimed yet.
        self.regenerated = 0

    def get(self, slot: DocumentSlot) -> tuple[DocumentInfo, ...] | None:
        lineages = self._places.get((slot.stage, slot.document_key))
        return None if lineages is None else lineages.get(slot.lineage)

    def writes_of(self, slots: Sequence[DocumentSlot]) -> list[int]:
        """Return how often each slot was written. Call this before reading documents for `put`."""
        return [self._writes.get((slot.stage, slot.document_key), 0) for slot in slots]

    def put(
        self,
        slots: Sequence[DocumentSlot],
        writes: Sequence[int],
        documents: Iterable[DocumentInfo],
    ) -> None:
        """Cache the documents of these slots, except slots written since `writes_of` was called."""
        infos = [*documents]
        for slot, before, now in zip(slots, writes, self.writes_of(slots), strict=True):
            if before != now:
                continue
            found = documents_in(slot, infos)
            self._documents += len(found) + 1
            self._characters += sum(len(info.content or "") for info in found)
            if self._documents > _MAX_CACHED_DOCUMENTS or self._characters > MAX_CACHED_CHARACTERS:
                self._places.clear()
                self._documents = self._characters = 0
            else:
                self._places.setdefault((slot.stage, slot.document_key), {})[slot.lineage] = found

    def discard(self, documents: Iterable[NewDocument]) -> None:
        for document in documents:
            self.regenerated += document.version > 1
            place = (document.stage, document.document_key)
            self._writes[place] = self._writes.get(place, 0) + 1
            if (lineages := self._places.get(place)) is not None:
                lineages.pop(None, None)
                lineages.pop(document.origin.lineage, None)
