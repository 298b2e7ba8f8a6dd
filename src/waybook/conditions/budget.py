"""What one evaluation may cost, counted in operations and bytes, never in time.

The rates, chosen so that the dearest condition stays far below 50 ms and a few megabytes:

- each node of the expression costs 1, paid before the evaluation starts;
- each round of a macro costs the nodes of its body, and 1;
- copying or comparing text costs 1 per `TEXT_PER_UNIT` characters, lists 1 per `ITEMS_PER_UNIT`;
- comparing lists and maps costs `COMPARED_PAIR` per list, map and element in them, however deep;
- looking for an element in a list costs `COMPARED_ITEM` for each it is compared with;
- an error that `&&`, `||`, `exists` or `all` absorbs costs `ABSORBED_FAULT`;
- searching a text costs by both lengths, see `waybook.conditions.functions`.
"""

BUDGET = 100_000

TEXT_PER_UNIT = 64
ITEMS_PER_UNIT = 8
ABSORBED_FAULT = 10
COMPARED_PAIR = 4
COMPARED_ITEM = 3


class Exhausted(Exception):
    """The budget is spent. Nothing absorbs this: the evaluation is over."""

    def __init__(self, at: int) -> None:
        """Remember which operation could not be paid."""
        self.at = at

    def __str__(self) -> str:
        return (
            f"too expensive: over the budget of {BUDGET} operations at position {self.at}; "
            "look at fewer elements or shorter texts"
        )


class Budget:
    """What is left of one evaluation's budget.

    >>> budget = Budget()
    >>> budget.spend(10, at=0)
    >>> budget.spent
    10
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        """Start with everything."""
        self.left = BUDGET

    @property
    def spent(self) -> int:
        """What was paid so far, never more than the whole budget."""
        return BUDGET - self.left

    def spend(self, cost: int, at: int) -> None:
        """Pay before the work is done.

        Raises:
            Exhausted: the work would cost more than is left.
        """
        if cost > self.left:
            self.left = 0
            raise Exhausted(at)
        self.left -= cost
