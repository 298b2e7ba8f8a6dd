"""Row classes with the columns of the queries for runs."""

from datetime import datetime
from typing import NamedTuple, TypeAlias

from waybook.json_values import Json

#: A list that splits the work of a step: the step has one job for each item. The fields are the
#: name and length of the list, the id of the document that contains the list, and the newer version
#: of the list, if any.
RunListRow: TypeAlias = tuple[str, int, str | None, tuple[int, str] | None]


class RunBriefRow(NamedTuple):
    input: Json
    created_at: datetime
    created_by: str


class DefinitionRow(NamedTuple):
    version: int
    name: str
    body: Json
    body_hash: str
    created_at: datetime
    created_by: str
    slug: str


class ReadableRow(NamedTuple):
    resource_id: str
    stage: str
    step_key: str
    document_key: str
    model: str
    lineage: str
    reviewer: str | None
    version: int
    created_at: datetime
    length: int
    #: Id of the document from which this document was rendered.
    document_id: str
    job_id: str
