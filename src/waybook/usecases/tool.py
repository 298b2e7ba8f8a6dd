"""A tool as the doorway's table holds it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from waybook.record.scopes import Scope
from waybook.usecases.arguments import ToolArguments
from waybook.usecases.call import Body, RequestContext
from waybook.usecases.schemas import input_schema

PLAN = frozenset({"plan", "research"})
RESEARCH = frozenset({"research"})
RUNS = frozenset({"runs"})
#: Tools for whoever looks after the place: only in the profile with all.
ADMIN = frozenset[str]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: what it is called, what it says of itself, what it takes, what it does."""

    name: str
    title: str
    #: Read by a model at run time: when to call it and what comes back.
    description: str
    arguments: type[ToolArguments]
    output_schema: dict[str, object]
    run: Callable[[RequestContext, Any], Awaitable[Body]]
    reads_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    profiles: frozenset[str] = PLAN
    logged: bool = True
    #: The scopes of which one is needed, where it is not as usual.
    scopes: frozenset[Scope] = frozenset()

    @property
    def required_scopes(self) -> frozenset[Scope]:
        """The scopes any one of which opens this tool."""
        if self.scopes:
            return self.scopes
        if self.reads_only:
            return frozenset({Scope.PLAN_READ})
        return frozenset({Scope.RUN_WRITE if self.profiles == RUNS else Scope.PLAN_WRITE})

    @property
    def input_schema(self) -> dict[str, object]:
        """The JSON Schema of the arguments."""
        return input_schema(self.arguments)
