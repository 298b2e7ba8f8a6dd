"""Scripted answers of the models in the framework examples: one for each instruction."""

import os
import sys
from dataclasses import dataclass

#: Exit status of a process that the scripted model ends, to simulate a crash.
CRASHED = 9
TOOL = "earlier_results"


@dataclass(frozen=True)
class Arguments:
    """Command-line arguments of a scripted example."""

    address: str
    plan_id: str
    #: The program crashes at the step whose instructions contain this word; an empty string means
    #: no crash.
    crash_word: str


def read_arguments() -> Arguments:
    """Parse the command line of a scripted example, and return its arguments."""
    address, plan_id, crash_word = sys.argv[1:]
    return Arguments(address, plan_id, crash_word)


def answer_to(prompt: str, crash_word: str) -> str:
    """Return the model's answer, or crash the process if the prompt contains the crash word."""
    if crash_word and crash_word in prompt:
        os._exit(CRASHED)
    return f"answer to {prompt.splitlines()[0]}"
