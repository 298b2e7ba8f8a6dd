"""Answers of the scripted models in the framework examples, one for each instruction."""

import os
import sys
from dataclasses import dataclass

#: Exit status of a process that simulates a crash.
CRASHED = 9
TOOL = "earlier_results"


@dataclass(frozen=True)
class Arguments:
    """Command-line arguments of a scripted example."""

    address: str
    plan_id: str
    #: Word in the instructions of the step at which the example crashes; empty for no crash.
    crash_word: str


def read_arguments() -> Arguments:
    address, plan_id, crash_word = sys.argv[1:]
    return Arguments(address, plan_id, crash_word)


def answer_to(prompt: str, crash_word: str) -> str:
    """Return the answer of the model; if the prompt has the crash word, end the process instead."""
    if crash_word and crash_word in prompt:
        os._exit(CRASHED)
    return f"answer to {prompt.splitlines()[0]}"
