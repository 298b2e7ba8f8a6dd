"""Material for a decision: research and outputs for a review, documents for feedback."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from waybook.app.queries.inbox import PendingFeedback
from waybook.app.request.request_context import RequestContext
from waybook.store.plans.evidence import (
    MAX_RESULT_LENGTH,
    PreviousReview,
    ReviewArtifact,
    evidence_statements,
)
from waybook.store.runs.evidence import StageDocument, stage_documents_statement

__all__ = ["MAX_RESULT_LENGTH", "PreviousReview", "ReviewArtifact", "StageDocument"]

OUTPUT_KIND = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewEvidence:
    previous: PreviousReview | None = None
    research: tuple[ReviewArtifact, ...] = ()
    outputs: tuple[ReviewArtifact, ...] = ()
    decide_within: timedelta | None = None


async def read_evidence(
    ctx: RequestContext, review_ids: Iterable[str]
) -> Mapping[str, ReviewEvidence]:
    ids = [*review_ids]
    if not ids:
        return {}
    earlier, artifacts = await ctx.read(*evidence_statements(ids))
    previous = {row.review_id: row for row in earlier}
    stored: defaultdict[str, list[ReviewArtifact]] = defaultdict(list)
    for row in artifacts:
        stored[row.review_id].append(row)
    return {
        review_id: ReviewEvidence(
            previous=previous.get(review_id),
            research=tuple(row for row in stored[review_id] if row.kind != OUTPUT_KIND),
            outputs=tuple(row for row in stored[review_id] if row.kind == OUTPUT_KIND),
            decide_within=ctx.services.review_reminder,
        )
        for review_id in ids
    }


async def read_stage_documents(
    ctx: RequestContext, stages: Sequence[PendingFeedback]
) -> list[Sequence[StageDocument]]:
    if not stages:
        return []
    statements = (stage_documents_statement(item.run.id, item.stage_slug) for item in stages)
    return [*await ctx.read(*statements)]
