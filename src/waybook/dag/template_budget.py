"""What rendering one template may cost, counted in parts of the data, never in time.

Each round of a loop costs the nodes of its body; a filter or a comparison costs what it looks at.
So a template costs no more than its own size and `BUDGET`, whatever data it is given. An array is
a `list` or a `tuple`, and an object a `dict`, as `json.loads` makes them.
"""

from collections.abc import Iterable

from waybook.conditions.values import Json

BUDGET = 200_000
#: So many characters of text weigh as much as one part.
TEXT_PER_PART = 64
#: Data nested deeper than this is not looked at.
MAX_DATA_DEPTH = 64


class TemplateBudgetExceeded(Exception):
    """The budget is spent, or the data is nested too deeply to be looked at."""


class Budget:
    """What is left of one rendering's budget.

    >>> budget = Budget()
    >>> budget.spend_for(["a", {"b": 1}])
    >>> BUDGET - budget.left
    4
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        """Start with everything."""
        self.left = BUDGET

    def spend(self, cost: int) -> None:
        """Pay before the work is done.

        Raises:
            Exhausted: the work would cost more than is left.
        """
        if cost > self.left:
            raise TemplateBudgetExceeded(f"it takes more than {BUDGET} operations")
        self.left -= cost

    def spend_for(self, value: Json) -> None:
        """Pay for looking at a value, all that is in it included.

        Raises:
            Exhausted: it is too large for what is left, or nested too deeply.
        """
        level: list[Json] = [value]
        for _ in range(MAX_DATA_DEPTH):
            self.spend(sum(map(_weight_alone, level)))
            level = [inner for item in level for inner in _inside(item)]
            if not level:
                return
        raise TemplateBudgetExceeded(f"the data is nested more than {MAX_DATA_DEPTH} levels deep")


def _weight_alone(value: Json) -> int:
    if isinstance(value, str):
        return 1 + len(value) // TEXT_PER_PART
    if isinstance(value, dict):
        return 1 + sum(map(len, value)) // TEXT_PER_PART
    return 1


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
