"""Booleans sent for numeric arguments: every tool refuses them, in nested arguments too."""

import json
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from waybook.app.registry import TOOLS
from waybook.app.request.arguments import parse_arguments
from waybook.app.tools.plans.get_next_step import GetNextStep
from waybook.app.tools.plans.submit import SubmitStepResult
from waybook.errors import InvalidInput

Path = tuple[str | int, ...]


Kinds = frozenset[type[BaseModel]]


def numeric_paths(kind: type[BaseModel], outer: Kinds = frozenset()) -> Iterator[Path]:
    """Yield the path of every numeric argument of a tool.

    `outer` contains the types that enclose the arguments, to end the recursion: steps may contain
    conditions, which may contain steps.
    """
    for field in kind.model_fields.values():
        for rest in _paths(field.annotation, outer | {kind}):
            yield (str(field.alias), *rest)


def _paths(annotation: Any, outer: Kinds) -> Iterator[Path]:  # noqa: ANN401 - an annotation is anything
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _paths(inner[0], outer)
    elif origin in {Union, UnionType}:
        for member in inner:
            yield from _paths(member, outer)
    elif origin is list:
        for rest in _paths(inner[0], outer):
            yield (0, *rest)
    elif annotation in {int, float}:
        yield ()
    elif annotation not in outer and _is_model(annotation):
        yield from numeric_paths(annotation, outer)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


PLACES = sorted(
    {(name, path) for name in TOOLS for path in numeric_paths(TOOLS[name].arguments)}, key=str
)


def holding(path: Path, value: object) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return nested objects and lists with `value` at this path."""
    if not path:
        return value
    inner = holding(path[1:], value)
    return [inner] if isinstance(path[0], int) else {path[0]: inner}


def refused_places(tool: str, arguments: Mapping[str, object]) -> dict[str, str]:
    """Return the error messages about the arguments, by the path of the refused argument."""
    with pytest.raises(InvalidInput) as refusal:
        parse_arguments(TOOLS[tool].arguments, arguments)
    faults = refusal.value.details["faults"]
    assert isinstance(faults, list)
    return {fault["at"]: fault["fault"] for fault in faults}


def test_list_of_numeric_arguments_includes_nested_arguments() -> None:
    numeric_places = {(tool, ".".join(map(str, path))) for tool, path in PLACES}
    assert ("submit_step_result", "confidence") in numeric_places
    assert ("submit_step_result", "usage.costUsd") in numeric_places
    assert ("create_research_plan", "budget.tokens") in numeric_places
    assert ("create_research_plan", "steps.0.dependsOn.0") in numeric_places
    assert ("modify_plan", "modifications.0.add_steps.insertAfterOrder") in numeric_places
    assert len(PLACES) > 30


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(("tool", "path"), PLACES, ids=str)
def test_boolean_passed_for_a_numeric_argument_is_refused(
    tool: str, path: Path, *, value: bool
) -> None:
    at = ".".join(map(str, path))
    arguments = holding(path, value)
    assert refused_places(tool, arguments)[at] == "must be a number, not true or false"
    as_text = {name: json.dumps(inner) for name, inner in arguments.items()}
    if len(path) > 1:
        assert refused_places(tool, as_text)[at] == "must be a number, not true or false"


def test_numbers_and_booleans_of_the_declared_type_are_accepted() -> None:
    arguments = {"stepId": "s", "resultSummary": True, "confidence": 1, "usage": {"costUsd": 0.5}}
    args = parse_arguments(SubmitStepResult, arguments)
    assert (args.result_summary, args.confidence) == (True, 1.0)
    assert parse_arguments(GetNextStep, {"planId": "p", "another": True}).another is True
