"""Decides whether two steps touch the same files or named resources.

A touch is a glob: `*` stands for any characters but `/`, `?` for one of them, and the segment `**`
for any number of folders. Everything else is literal. A touch covers what it matches, and
everything below that.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from waybook.plan.model import Plan, Step, StepStatus

#: Segments of a path, of which some have wildcards.
_Segments: TypeAlias = tuple[str, ...]

_ANY_FOLDERS: Final = "**"
_HELD: Final = frozenset({StepStatus.IN_PROGRESS, StepStatus.AWAITING_INPUT})
#: Limit on the comparisons of one decision, in pairs of segments and characters: about 0.1 s.
_MAX_WORK: Final = 60_000


def touch_fault(touch: str) -> str | None:
    """Return why a text cannot be a touch, or None if it can.

    >>> touch_fault("src/../a"), touch_fault("src/*.py")
    ('must not contain the folder ..', None)
    """
    if not touch.isprintable():
        return "must be printable text on one line"
    if ".." in touch.split("/"):
        return "must not contain the folder .."
    return None if normalized_touch(touch) else "must name a file, a folder or a resource"


def normalized_touch(touch: str) -> str:
    """Return a touch without empty segments.

    >>> normalized_touch("./src//a/**"), normalized_touch("/etc/hosts/")
    ('src/a/**', 'etc/hosts')
    """
    return "/".join(part for part in touch.strip().split("/") if part not in {"", "."})


@lru_cache(maxsize=4_096)
def _parsed(touches: str) -> tuple[_Segments, ...]:
    return tuple((*touch.split("/"), _ANY_FOLDERS) for touch in touches.split("\n"))


class HeldTouches:
    """Touches of the steps in progress and of the steps that wait for a review."""

    def __init__(self, plan: Plan) -> None:
        held = (step for step in plan.steps if step.touches and step.status in _HELD)
        self._held = [(step, _parsed(step.touches or "")) for step in held]
        self._comparison = Comparison()

    def overlapping(self, step: Step) -> Step | None:
        """Return a step that touches the same as this one, or None if no step does.

        If the limit on comparisons is reached, the steps count as overlapping.
        """
        wanted = _parsed(step.touches or "")
        for other, taken in self._held:
            for first in taken:
                for second in wanted:
                    if self._comparison.left <= 0 or self._comparison.overlaps(first, second):
                        return other
        return None


class Comparison:
    """Comparison of globs with a limit on the work, of which `left` is the rest."""

    def __init__(self, work: int = _MAX_WORK) -> None:
        self.left = work

    def overlaps(self, first: Sequence[str], second: Sequence[str]) -> bool:
        """Return whether some path matches both sequences of segments.

        `places` are the positions in `second` that are reached by a path that matches `first` up to
        the current position.
        """
        places = self._passing({0}, second)
        for segment in first:
            self.left -= 1 + len(places)
            if segment == _ANY_FOLDERS:
                places = set(range(min(places), len(second) + 1))
                continue
            following = set[int]()
            for place in places:
                if place < len(second):
                    other = second[place]
                    if other == _ANY_FOLDERS:
                        following.add(place)
                    elif self._share_name(segment, other):
                        following.add(place + 1)
            places = self._passing(following, second)
            if not places:
                return False
        return len(second) in places

    @staticmethod
    def _passing(places: set[int], segments: Sequence[str]) -> set[int]:
        """Add the positions behind each `**`, because it may stand for no folder."""
        reached = set[int]()
        for place in places:
            end = place
            reached.add(end)
            while end < len(segments) and segments[end] == _ANY_FOLDERS:
                end += 1
                reached.add(end)
        return reached

    def _share_name(self, first: str, second: str) -> bool:
        """Return whether some name matches both segments.

        Bit n of `places` says that n characters of `second` are matched so far.
        """
        if first == second:
            return True
        wild = {"*", "?"}
        if wild.isdisjoint(first) and wild.isdisjoint(second):
            return False
        self.left -= len(first) + len(second)
        known = dict[str, int]()
        for n, character in enumerate(second):
            known[character] = known.get(character, 0) | 1 << n
        stars, any_character = known.get("*", 0), known.get("?", 0)
        places = _behind_stars(1, stars)
        for character in first:
            if character == "*":
                # Every position from the first one on can be reached.
                places = (1 << len(second) + 1) - (places & -places)
                continue
            taken = ~stars if character == "?" else known.get(character, 0) | any_character
            places = _behind_stars((places & taken) << 1 | places & stars, stars)
            if not places:
                return False
        return bool(places >> len(second) & 1)


def _behind_stars(places: int, stars: int) -> int:
    """Add the positions behind each star, because it may stand for no character."""
    while (more := places | (places & stars) << 1) != places:
        places = more
    return places
