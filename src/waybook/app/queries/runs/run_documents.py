"""Read-only query for a document of a run, alone or compared with another one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Final, TypeAlias

from waybook.app.queries.runs.run import RunDetail, RunInclude, read_run_detail
from waybook.app.request.caller import ReadableDocument
from waybook.app.request.request_context import RequestContext, id_or_nil
from waybook.app.request.run_access import load_run
from waybook.errors import NextCall, NotFound
from waybook.json_values import Json, non_empty
from waybook.run.made_from import InputVersion, input_versions
from waybook.run.model import CompiledDag
from waybook.store.runs import jobs, work
from waybook.store.runs.rows import DocumentVersionRow, ReadableRow, RenderedRow
from waybook.store.runs.work import MarkdownRow

DocumentVersion: TypeAlias = ReadableRow

MAX_COMPARABLE: Final = 300
#: Inputs with a newer version are listed first.
MAX_INPUTS_LISTED: Final = 50
#: The page shows at most this many characters. The download contains the whole document.
MAX_SHOWN_LENGTH: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    about: DocumentVersion
    markdown: str
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSheet:
    """A document, related documents, and the document it is compared with."""

    detail: RunDetail
    document: ShownDocument
    other: ShownDocument | None
    #: Documents to compare with, such as other versions and documents of other models.
    related: Sequence[DocumentVersion]
    #: Inputs of the document in the versions that were read. Those with newer versions come first.
    inputs: Sequence[InputVersion] = ()

    @property
    def versions(self) -> list[DocumentVersion]:
        return [item for item in self.related if _place(item) == _place(self.document.about)]

    @property
    def of_other_models(self) -> list[DocumentVersion]:
        """Return the documents with the same key that other models wrote."""
        about = self.document.about
        return [
            item
            for item in self.related
            if (item.stage, item.document_key) == (about.stage, about.document_key)
            and _place(item) != _place(about)
        ]

    @property
    def of_same_lineage(self) -> list[DocumentVersion]:
        """Return the documents with other keys that derive from the same document."""
        about = self.document.about
        key = about.stage, about.document_key
        return [item for item in self.related if (item.stage, item.document_key) != key]


def _place(item: DocumentVersion) -> tuple[str | None, ...]:
    return item.stage, item.step_key, item.document_key, item.model, item.lineage, item.reviewer


async def read_document(ctx: RequestContext, resource_id: str) -> ReadableDocument:
    (rows,) = await ctx.read(jobs.rendered_statement(id_or_nil(resource_id)))
    if not rows:
        raise NotFound(
            "there is no document with this id here",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    row: RenderedRow = rows[0]
    seen = await load_run(ctx, row.run_id, jobs.versions_statement(row.run_id, always=True))
    inputs = _inputs(seen.compiled_dag, row.document_id, seen.results[0])[:MAX_INPUTS_LISTED]
    fields = row._replace(created_at=row.created_at.astimezone(UTC))._asdict()
    del fields["document_id"]
    made_from = [_input_view(item) for item in inputs]
    return ReadableDocument(resource_id=resource_id, **fields, made_from=made_from)


def _inputs(
    compiled_dag: CompiledDag, document_id: str, rows: Sequence[DocumentVersionRow]
) -> Sequence[InputVersion]:
    versions = jobs.read_versions(rows)
    (inputs,) = input_versions(compiled_dag, versions, {document_id}).values()
    return sorted(inputs, key=lambda item: not item.is_outdated)


def _input_view(item: InputVersion) -> Json:
    document = item.read.document
    return non_empty(
        documentKey=document.document_key,
        stageSlug=document.stage,
        modelId=document.model,
        version=item.read.version,
        newerVersion=item.latest.version if item.is_outdated else None,
    )


async def read_document_sheet(
    ctx: RequestContext, run_id: str, resource_id: str, other_id: str | None = None
) -> DocumentSheet:
    """Read a document of a run, and optionally a related one for comparison.

    Raises:
        NotFound: the run or a document does not exist or belongs to another org or run, or the
        documents are not related.
    """
    run_id, resource_id = id_or_nil(run_id), id_or_nil(resource_id).lower()
    wanted = [resource_id, *([id_or_nil(other_id).lower()] if other_id else [])]
    detail = await read_run_detail(ctx, run_id, RunInclude.NOTHING)
    version_rows, rows, *texts = await ctx.read(
        jobs.versions_statement(run_id, always=True),
        work.document_versions_statement(run_id, resource_id, MAX_COMPARABLE),
        *(work.document_text_statement(run_id, item, MAX_SHOWN_LENGTH) for item in wanted),
    )
    related = [row._replace(created_at=row.created_at.astimezone(UTC)) for row in rows]
    shown = [_shown(related, item, text) for item, text in zip(wanted, texts, strict=True)]
    return DocumentSheet(
        detail=detail,
        document=shown[0],
        other=shown[1] if other_id else None,
        related=related,
        inputs=_inputs(detail.compiled_dag, shown[0].about.document_id, version_rows),
    )


def _shown(
    related: Sequence[DocumentVersion], resource_id: str, rows: Sequence[MarkdownRow]
) -> ShownDocument:
    about = next((item for item in related if item.resource_id == resource_id), None)
    if about is None or not rows:
        raise NotFound(
            "there is no such document in this run, or it cannot be compared with this one",
            next_call=NextCall("list_dags", {}, "List the workflows and runs."),
        )
    text = rows[0]
    return ShownDocument(
        about=about, markdown=text.markdown, omitted=text.length - len(text.markdown)
    )
