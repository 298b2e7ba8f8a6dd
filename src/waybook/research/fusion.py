"""Merges the results of full-text and semantic search into one list.

The score of a hit is the weighted sum of its measures in the two lists. The measures have fixed
scales, so the score also shows whether a hit fits the query at all. The weights and `MIN_SCORE`
were chosen with `benchmarks/retrieval.py` and `benchmarks/search_quality.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WEIGHTS = {"words": 0.4, "meaning": 0.6}
#: A hit with a lower score is left out, because it does not fit the query.
MIN_SCORE = 0.2


class RankedPassage(NamedTuple):
    subject_id: str
    part: int
    #: Fit of the passage. For full-text search: its BM25 score divided by the weight of all
    #: terms, which is about 1 for an average passage that has each term once. For semantic search:
    #: the cosine similarity.
    measure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReason:
    by: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    subject_id: str
    part: int
    score: float
    why: tuple[MatchReason, ...]


def fuse(lists: Mapping[str, Sequence[RankedPassage]]) -> list[Hit]:
    """Merge ranked lists into one, best hit first, with one passage per artifact or source.

    If an artifact or source is missing in the semantic list, it gets the similarity of the last
    passage in that list. If there is no semantic list, the full-text measure is the score.
    """
    reasons: dict[str, dict[str, MatchReason]] = {}
    parts: dict[str, tuple[int, int]] = {}
    for by, passages in lists.items():
        first: dict[str, RankedPassage] = {}
        for passage in passages:
            first.setdefault(passage.subject_id, passage)
        for place, passage in enumerate(first.values(), 1):
            subject = passage.subject_id
            why = MatchReason(by=by, rank=place, score=passage.measure)
            reasons.setdefault(subject, {})[by] = why
            parts[subject] = min(parts.get(subject, (place, passage.part)), (place, passage.part))
    similar = lists.get("meaning")
    last = similar[-1].measure if similar else 0.0
    hits = [
        Hit(
            subject_id=subject,
            part=parts[subject][1],
            score=(
                WEIGHTS["words"] * _measure(why.get("words"), 0)
                + WEIGHTS["meaning"] * _measure(why.get("meaning"), last)
                if similar
                else _measure(why.get("words"), 0)
            ),
            why=tuple(why.values()),
        )
        for subject, why in reasons.items()
    ]
    return sorted(hits, key=lambda hit: (-hit.score, parts[hit.subject_id][0], hit.subject_id))


def _measure(reason: MatchReason | None, otherwise: float) -> float:
    return reason.score if reason else otherwise
