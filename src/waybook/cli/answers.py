"""What `report` and `map` share: a snapshot in, an answer out; one, or one for each line."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import click
import orjson

from waybook.cli.faults import show
from waybook.cli.inputs import LARGEST_SNAPSHOT, bounded, each_line, whole
from waybook.cli.lazy import load
from waybook.cli.printing import say_json
from waybook.dag.loose import items, record
from waybook.errors import BadRecipe, InvalidInput, WaybookError

#: From a text to what is answered to it.
Answering = Callable[[bytes], Mapping[str, object]]
AnswerT = TypeVar("AnswerT")

file = click.argument("file", type=click.Path(allow_dash=True), metavar="FILE")
lines = click.option(
    "--lines", is_flag=True, help="A snapshot on each line, and an answer on each line."
)


def read_json(text: bytes) -> object:
    """The value a text holds.

    Raises:
        InvalidInput: it is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as fault:
        raise InvalidInput(f"this is not JSON: {fault}") from None


def answer_each_line(answer: Answering, file: str) -> None:
    """Print an answer for each line as soon as it is there; one that is refused stops nobody."""
    for line in each_line(file, LARGEST_SNAPSHOT):
        _tell(partial(_answer_line, answer, line))


def _answer_line(answer: Answering, line: bytes) -> Mapping[str, object]:
    return answer(bounded(line, LARGEST_SNAPSHOT))


def answer_all(answer: Answering, file: str, drawn_by: str, *, as_json: bool) -> None:
    """Answer the whole file: as a picture for a person, in JSON for anyone else.

    What draws the picture is imported only for a person. A refusal in JSON ends with exit code 1.
    """
    if a_person_reads(as_json=as_json):
        load(drawn_by)(answer_or_faults(answer, whole(file, LARGEST_SNAPSHOT)))
    elif _tell(lambda: answer(whole(file, LARGEST_SNAPSHOT))):
        sys.exit(1)


def answer_or_faults(answer: Callable[[bytes], AnswerT], text: bytes) -> AnswerT:
    """The answer; a recipe with faults is told with all of them, each on its line."""
    try:
        return answer(text)
    except BadRecipe as refused:
        for fault in map(record, items(refused.details.get("faults"))):
            show(f"{fault['at']}: {fault['message']}", None)
        sys.exit(1)


def a_person_reads(*, as_json: bool) -> bool:
    """Whether somebody sits at a terminal and wants no JSON."""
    return not as_json and sys.stdout.isatty()


def _tell(answer: Callable[[], Mapping[str, object]]) -> bool:
    """Print the answer, or its error in the same place; say whether it is one."""
    try:
        body, refused = answer(), False
    except WaybookError as fault:
        body, refused = fault.as_json(), True
    say_json(body, tight=True)
    return refused
