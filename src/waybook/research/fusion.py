"""Merges ranked lists by reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009).

The score of an artifact or source is the sum of 1 / (60 + rank) over the lists. Only ranks are
used, because a full-text rank and a vector distance have no common scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CONSTANT = 60


class RankedPassage(NamedTuple):
    subject_id: str
    part: int
    #: In full-text search, the share of the query that the passage's words cover. In semantic
    #: search, the cosine similarity.
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


def fuse(lists: Mapping[str, Sequence[RankedPassage]], constant: int = CONSTANT) -> list[Hit]:
    """Merge ranked lists, best hit first. Each artifact or source has one passage."""
    reasons: dict[str, list[MatchReason]] = {}
    parts: dict[str, tuple[int, int]] = {}
    for by, passages in lists.items():
        for place, passage in enumerate(_once(passages), 1):
            subject = passage.subject_id
            why = MatchReason(by=by, rank=place, score=passage.measure)
            reasons.setdefault(subject, []).append(why)
            parts[subject] = min(parts.get(subject, (place, passage.part)), (place, passage.part))
    hits = [
        Hit(
            subject_id=subject,
            part=parts[subject][1],
            score=sum(1 / (constant + reason.rank) for reason in why),
            why=tuple(why),
        )
        for subject, why in reasons.items()
    ]
    return sorted(hits, key=lambda hit: (-hit.score, parts[hit.subject_id][0], hit.subject_id))


def _once(passages: Sequence[RankedPassage]) -> Sequence[RankedPassage]:
    first: dict[str, RankedPassage] = {}
    for passage in passages:
        first.setdefault(passage.subject_id, passage)
    return list(first.values())
