"""Queries for what a reviewer needs: previous results, research and outputs."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from waybook.json_values import Json
from waybook.store.driver.queries import Ids, Statement, load

MAX_RESULT_LENGTH = 200_000
MAX_ARTIFACTS = 5


class PreviousReview(NamedTuple):
    review_id: str
    feedback: str | None
    decision: str
    decided_by: str
    decided_at: datetime
    result_summary: Json
    result_length: int


class ReviewArtifact(NamedTuple):
    review_id: str
    id: str
    kind: str
    title: str
    total: int


SQL = load("plans/evidence", previous_reviews=PreviousReview, review_artifacts=ReviewArtifact)


def evidence_statements(review_ids: Iterable[str]) -> tuple[Statement, Statement]:
    ids = [*review_ids]
    return (
        SQL["previous_reviews"](ids=Ids(ids), longest=MAX_RESULT_LENGTH),
        SQL["review_artifacts"](ids=Ids(ids), most=MAX_ARTIFACTS),
    )
