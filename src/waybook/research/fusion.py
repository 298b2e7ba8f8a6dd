"""Merges the ranked lists of a search into one, by weighted sums of their measures.

The measures have fixed scales, so the score of a hit also shows whether it fits the query at all.
The weights and the floor were chosen with `benchmarks/retrieval.py` and
`benchmarks/search_quality.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WEIGHTS = {"words": 0.4, "meaning": 0.6}
#: Hits with a lower score do not fit the query.
MIN_SCORE = 0.2


class RankedPassage(NamedTuple):
    subject_id: str
    part: int
    #: In full-text search, BM25 divided by the weight of all terms: about 1 if an average passage
    #: has each term once. In semantic search, the cosine similarity.
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
    """Merge ranked lists, best hit first. Each artifact or source has one passage.

    If an artifact or source is not in the list of similar passages, it counts as similar as the
    last one in that list. Without vectors, the words have the whole weight.
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
