"""Several ranked lists made one: what stands high in any, and higher still what stands in several.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009): a place gives 1 / (60 + place), and
the places of a thing add up. Only places count, for a rank by words and a distance in space have
no common measure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CONSTANT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPassage:
    """A passage in a ranked list, with what put it there."""

    subject_id: str
    part: int
    #: By words: the share of the question its words cover. By meaning: how near it is, up to 1.
    measure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchReason:
    """One reason for a hit: the list it stands in, at which place, and by what measure."""

    by: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """Something found, its best passage, and why."""

    subject_id: str
    part: int
    score: float
    why: tuple[MatchReason, ...]


def fuse(lists: Mapping[str, Sequence[RankedPassage]], constant: int = CONSTANT) -> list[Hit]:
    """Make one list of several, best first. Of each subject its best passage stands for it."""
    reasons: dict[str, list[MatchReason]] = {}
    parts: dict[str, tuple[int, int]] = {}
    for by, found in lists.items():
        for place, passage in enumerate(_once(found), 1):
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


def _once(found: Sequence[RankedPassage]) -> Sequence[RankedPassage]:
    """Each subject where it stands first."""
    first: dict[str, RankedPassage] = {}
    for passage in found:
        first.setdefault(passage.subject_id, passage)
    return list(first.values())
