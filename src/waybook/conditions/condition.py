"""Branch conditions: compiled when a plan is written, evaluated when a step completes.

The language is a subset of CEL over JSON values. Types are checked only during evaluation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from waybook.conditions.budget import Budget, BudgetExceeded
from waybook.conditions.checker import check
from waybook.conditions.evaluator import Program, program, start
from waybook.conditions.parser import parse
from waybook.conditions.syntax import Node
from waybook.conditions.values import ConditionError, Json, kind
from waybook.errors import BadExpression

MAX_SOURCE_LENGTH = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    fired: bool
    error: str | None
    cost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    source: str
    tree: Node
    program: Program = field(repr=False, compare=False)

    def evaluate(self, values: Mapping[str, Json], budget: Budget | None = None) -> Outcome:
        """Evaluate the condition. An error is returned as part of the outcome and never raised.

        >>> condition = compile_condition("confidence < 0.5 && size(result.sources) == 0")
        >>> condition.evaluate({"confidence": 0.3, "result": {"sources": []}})
        Outcome(fired=True, error=None, cost=9)
        >>> condition.evaluate({"confidence": 0.3, "result": {}}).error
        "no field 'sources' at position 32; test it with has() first"
        """
        budget = budget or Budget()
        try:
            value = start(self.program, values, budget)
        except ConditionError as fault:
            fault.__traceback__ = None
            return Outcome(fired=False, error=str(fault), cost=budget.spent)
        except BudgetExceeded as exhausted:
            return Outcome(fired=False, error=str(exhausted), cost=budget.spent)
        if type(value) is bool:
            return Outcome(fired=value, error=None, cost=budget.spent)
        error = f"the condition is of type {kind(value)}, neither true nor false"
        return Outcome(fired=False, error=error, cost=budget.spent)


def compile_condition(source: str) -> Condition:
    """Compile a condition. All errors in its text are raised here, not during evaluation.

    Raises:
        BadExpression: the text does not compile; the error's details contain `position`, `source`
            and, if available, `hint`.
    """
    try:
        _check_text(source)
        tree = parse(source)
        check(tree)
    except ConditionError as error:
        raise _refusal(error, source[:MAX_SOURCE_LENGTH]) from None
    return Condition(source=source, tree=tree, program=program(tree))


def _refusal(error: ConditionError, source: str) -> BadExpression:
    if error.hint is None:
        return BadExpression(str(error), position=error.at, source=source)
    return BadExpression(str(error), position=error.at, source=source, hint=error.hint)


def _check_text(source: str) -> None:
    if len(source) > MAX_SOURCE_LENGTH:
        text = f"the condition has {len(source)} characters, {MAX_SOURCE_LENGTH} are allowed,"
        raise ConditionError(text, MAX_SOURCE_LENGTH, "shorten it")
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise ConditionError("half a surrogate pair is no character", error.start) from None
