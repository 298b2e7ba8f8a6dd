"""Queries for the material that a reviewer needs: previous results, research and outputs."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from waybook.json_values import Json
from waybook.store.driver.queries import Ids, Statement, load

#: Maximum length of a previous result that is read for a comparison.
MAX_RESULT_LENGTH = 200_000
#: Maximum number of artifacts, and maximum number of outputs, that are listed for a review.
MAX_ARTIFACTS = 5


class PreviousReview(NamedTuple):
    """An earlier, decided review of the same step."""

    review_id: str
    feedback: str | None
    decision: str
    decided_by: str
    decided_at: datetime
    #: Result that was reviewed. None if there was no result, or if it is too long.
    result_summary: Json
    result_length: int


class ReviewArtifact(NamedTuple):
    """An artifact of the step under review, or an output of its plan, without the content."""

    review_id: str
    id: str
    kind: str
    title: str
    #: Number of artifacts of the step or outputs of the plan, including those that are not listed.
    total: int


SQL = load("plans/evidence", previous_reviews=PreviousReview, review_artifacts=ReviewArtifact)


def evidence_statements(review_ids: Iterable[str]) -> tuple[Statement, Statement]:
    ids = [*review_ids]
    return (
        SQL["previous_reviews"](ids=Ids(ids), longest=MAX_RESULT_LENGTH),
        SQL["review_artifacts"](ids=Ids(ids), most=MAX_ARTIFACTS),
    )
